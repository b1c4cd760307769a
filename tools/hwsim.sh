#!/bin/sh
# The facts that drivers of Wi-Fi tell, from a real kernel: boots Debian's in QEMU (without KVM) with
# two radios of mac80211_hwsim, joins them, and lets two daemons tell what they learn.
#
#   tools/hwsim.sh FOLDER [WIFU]
#
# FOLDER keeps what is downloaded (110 MB) and what was said (log). WIFU is the command, with its
# libraries: target/debug/wifu unless said otherwise. Needs apt, dpkg, cpio, xz and qemu-system-x86;
# not root. Takes a minute or two; the status is 1 if something is not told.
# The answers of the kernel in crates/wifu-linux/src/wifi/answers were recorded by it.
set -eu
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")/.." && pwd)
wifu=$(realpath "${2:-$here/target/debug/wifu}")
mkdir -p "$1"
cd "$1"

if ! [ -d root ]; then
    # With tcx, for which the first one of Debian 12 is too old.
    kernel=$(apt-cache depends linux-image-6.12-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
    mkdir -p debs
    (cd debs && apt-get -q download "$kernel" busybox-static iw libnl-3-200 libnl-genl-3-200)
    for deb in debs/*.deb; do dpkg-deb -x "$deb" root.new; done
    mv root.new root
fi

rm -rf guest && mkdir -p guest/bin guest/lib/modules guest/proc guest/sys guest/dev guest/run guest/tmp
find root -path '*/bin/busybox' -type f -exec cp -p {} guest/bin/ \;
find root -path '*/sbin/iw' -type f -exec cp -p {} guest/bin/ \;
cp "$wifu" guest/bin/wifu
cp "$(dirname "$wifu")/libwifu_preload.so" guest/bin/
# What only debuggers read makes the guest slow.
strip guest/bin/wifu guest/bin/libwifu_preload.so 2>/dev/null || true
# Every library that one of them needs, where the linker looks.
for library in $(LD_LIBRARY_PATH=$(echo root/lib/x86_64-linux-gnu root/usr/lib/x86_64-linux-gnu | tr ' ' :) \
    ldd guest/bin/iw guest/bin/wifu | grep -o '[^ ]*/[^ ]*\.so[^ ]*' | sort -u); do
    mkdir -p "guest/lib/x86_64-linux-gnu" guest/lib64
    cp -L "$library" guest/lib/x86_64-linux-gnu/
done
cp -L guest/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 guest/lib64/
for module in unix_diag libarc4 rfkill ctr ccm cmac gcm cfg80211 mac80211 virtio virtio_ring mac80211_hwsim; do
    file=$(find root -name "$module.ko*" | head -n 1)
    # Some are part of the kernel itself.
    [ -n "$file" ] || continue
    case $file in
    *.xz) xz -dc "$file" >guest/lib/modules/$module.ko ;;
    *) cp "$file" guest/lib/modules/$module.ko ;;
    esac
    echo $module.ko >>guest/lib/modules/order
done

cat >guest/tmp/own.toml <<'END'
[protocol.snooped]
extends = "tcp-newreno"
number  = 245
[handlers.snooped]
chain = ["snoop"]
END
cat >guest/init <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin WIFU_FILE=/tmp/own.toml WIFU_LOG=info
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev 2>/dev/null
mount -t tmpfs none /run; mount -t tmpfs none /tmp2 2>/dev/null
for module in $(cat /lib/modules/order); do
    case $module in
    mac80211_hwsim*) insmod /lib/modules/$module radios=2 ;;
    *) insmod /lib/modules/$module 2>/dev/null ;;
    esac
done
ip link set lo up
unshare -n sleep 1000 &
other=$!
sleep 1
iw phy phy1 set netns $other
inside() { nsenter -t $other -n "$@"; }
begin() { # an interface, its address, how to run something there
    $3 ip link set lo up
    $3 iw dev $1 set type ibss
    $3 ip addr add $2/24 dev $1
    $3 ip link set $1 up
    # With a BSSID of its own each would first have to find the other.
    $3 iw dev $1 ibss join hwsim 2412 fixed-freq 02:ca:ff:ee:ba:be
}
begin wlan0 10.1.0.1 ""
begin wlan1 10.1.0.2 inside
for i in $(seq 60); do ping -c1 -W1 10.1.0.2 >/dev/null 2>&1 && break; done
ping -c3 10.1.0.2
echo "== answers"
iw dev wlan0 set txpower fixed 1500
# This driver counts busy time while it scans, and no other.
iw dev wlan0 scan >/dev/null
sleep 1
for what in "info" "station dump" "survey dump"; do
    echo "== iw dev wlan0 $what"
    iw --debug dev wlan0 $what
done
echo "== daemons"
wifu daemon --serve snooped 2>/tmp/near.log &
near=$!
nsenter -t $other -n wifu daemon --serve snooped 2>/tmp/far.log &
far=$!
for i in $(seq 100); do grep -q ready: /tmp/near.log && grep -q ready: /tmp/far.log && break; sleep 0.1; done
inside wifu perf --server --protocol snooped >/tmp/listen.log 2>&1 &
sleep 2
wifu perf --client 10.1.0.2 --time 20 --protocol snooped >/tmp/perf.log 2>&1 &
perf=$!
for i in $(seq 60); do grep -q connected /tmp/perf.log && break; sleep 0.5; done
timeout 60 wifu ss --watch link_rate --json --interval 0.5 >/tmp/ss.log 2>&1 &
wait $perf
tail -n 2 /tmp/ss.log
wifu doctor
kill $near $far
wait $near $far
for log in near far perf listen; do echo "== $log"; cat /tmp/$log.log; done
echo "== end"
poweroff -f
END
chmod +x guest/init
(cd guest && find . | cpio --quiet -o -H newc | gzip -1) >initrd
timeout 600 qemu-system-x86_64 -machine accel=tcg -cpu max -smp 1 -m 1024 -nographic -no-reboot \
    -kernel "$(find root/boot -name 'vmlinuz-*' | head -n 1)" -initrd initrd \
    -append "console=ttyS0 quiet panic=-1 no_timer_check" </dev/null | tr -d '\r' >log
sed -n '/^== daemons/,$p' log

failed=0
expect() {
    if grep -Eq "$1" log; then echo "ok: $2"; else echo "MISSING: $2"; failed=1; fi
}
facts='rate and signal of each neighbour, transmit power [0-9]+ dBm, how busy the medium is'
expect "drivers: .*wlan0 $facts" "a daemon says at its start what the driver tells"
expect "^wifi +found +wlan0 $facts" "so does wifu doctor"
expect '"link_rate":[1-9][0-9]+' "a connection knows the rate to its next hop"
expect '"wlan0":.*"signal_dbm":-[0-9]+' "the signal of a neighbour"
expect '"wlan0":.*"tx_bps":[1-9][0-9]+' "the rate to it"
expect '"wlan0":.*"tx_power_dbm":15' "the transmit power"
expect 'wifu perf Done' "octets came over the radio"
exit $failed
