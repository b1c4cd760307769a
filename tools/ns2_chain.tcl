# The chain of `make bench` for ns-2: 6 hops of 802.11a, one saturated NewReno flow, with ns-2's
# classic radio (250 m of range, 550 m of carrier sense; 200 m between neighbours).
#
#     ns tools/ns2_chain.tcl RATE SECONDS        e.g. 24Mb 200
lassign $argv rate seconds
# IEEE 802.11a: slots of 9 us, SIFS of 16 us, 20 us of preamble and header (96 + 24 bits at 6 Mb/s).
foreach {name value} {
    SlotTime_ 0.000009 SIFS_ 0.000016 CWMin_ 15 CWMax_ 1023 basicRate_ 6Mb PLCPDataRate_ 6Mb
    PreambleLength_ 96 PLCPHeaderLength_ 24 RTSThreshold_ 3000
} {
    Mac/802_11 set $name $value
}
Mac/802_11 set dataRate_ $rate

set ns [new Simulator]
$ns trace-all [open /dev/null w]
set plain [new Topography]
$plain load_flatgrid 2000 100
create-god 7
$ns node-config -adhocRouting AODV -llType LL -macType Mac/802_11 \
    -ifqType Queue/DropTail/PriQueue -ifqLen 50 -antType Antenna/OmniAntenna \
    -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy -topoInstance $plain \
    -agentTrace OFF -routerTrace OFF -macTrace OFF -movementTrace OFF \
    -channel [new Channel/WirelessChannel]
for {set i 0} {$i < 7} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    $node($i) set X_ [expr 10 + 200 * $i]
    $node($i) set Y_ 10
    $node($i) set Z_ 0
}
# Segments of 1460 octets, and a window of 64 KiB.
set tcp [new Agent/TCP/Newreno]
$tcp set packetSize_ 1460
$tcp set window_ 44
set sink [new Agent/TCPSink]
$ns attach-agent $node(0) $tcp
$ns attach-agent $node(6) $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0.1 "$ftp start"
$ns at $seconds {
    puts "goodput_mbps [expr [$sink set bytes_] * 8 / $seconds / 1e6]"
    exit 0
}
$ns run
