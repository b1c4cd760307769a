# A saturated chain of ns-2's classic radio (250 m of range, 550 m of carrier sense; 200 m between neighbours), 802.11b at
# 2 Mb/s with RTS and control frames at 1 Mb/s: what arrives of packets of 1500 octets, kb/s, after the first fifth.
#
#     ns tools/ns2_rts_chain.tcl HOPS SECONDS SEED [ATTEMPTS]       e.g. 6 100 1
#
# Without ATTEMPTS there are so many that nothing is given up: ns-2's routing daemon takes that for a broken link, and
# drops what waits for it.
lassign $argv hops seconds seed attempts
if {$attempts eq ""} { set attempts 200 }
foreach {name value} {
    SlotTime_ 0.000020 SIFS_ 0.000010 CWMin_ 31 CWMax_ 1023 PreambleLength_ 144 PLCPHeaderLength_ 48
    PLCPDataRate_ 1.0e6 dataRate_ 2.0e6 basicRate_ 1.0e6 RTSThreshold_ 0
} {
    Mac/802_11 set $name $value
}
Mac/802_11 set ShortRetryLimit_ $attempts
Mac/802_11 set LongRetryLimit_ $attempts

set ns [new Simulator]
ns-random $seed
$ns trace-all [open /dev/null w]
set plain [new Topography]
$plain load_flatgrid 6000 100
create-god [expr $hops + 1]
$ns node-config -adhocRouting AODV -llType LL -macType Mac/802_11 \
    -ifqType Queue/DropTail/PriQueue -ifqLen 50 -antType Antenna/OmniAntenna \
    -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy -topoInstance $plain \
    -agentTrace OFF -routerTrace OFF -macTrace OFF -movementTrace OFF \
    -channel [new Channel/WirelessChannel]
for {set i 0} {$i <= $hops} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    $node($i) set X_ [expr 10 + 200 * $i]
    $node($i) set Y_ 10
    $node($i) set Z_ 0
}
# With the IP header 1500 octets.
set udp [new Agent/UDP]
$udp set packetSize_ 1480
set sink [new Agent/LossMonitor]
$ns attach-agent $node(0) $udp
$ns attach-agent $node($hops) $sink
$ns connect $udp $sink
set cbr [new Application/Traffic/CBR]
$cbr set packetSize_ 1480
$cbr set rate_ 2.0Mb
$cbr attach-agent $udp
$ns at 0.1 "$cbr start"
set warm [expr $seconds / 5.0]
$ns at $warm { set before [$sink set bytes_] }
$ns at $seconds {
    set packets [expr ([$sink set bytes_] - $before) / 1480.0]
    puts "kbps [format %.1f [expr $packets * 12 / ($seconds - $warm)]]"
    exit 0
}
$ns run
