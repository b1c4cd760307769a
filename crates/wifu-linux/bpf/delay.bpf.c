// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Measures how long packets are under way in a device, of any driver: by the kernel's tracepoints,
// from entering its queue or its driver to leaving the queue or being freed when transmitted.
//
// Built by build.sh with Debian's clang; the object is in this folder, so that users need none.

typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define ALWAYS static __attribute__((always_inline))

// uapi/linux/bpf.h
enum { BPF_MAP_TYPE_ARRAY = 2 };
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*ktime_ns)(void) = (void *)5;
static long (*store)(void *skb, u32 at, const void *from, u32 length, u64 flags) = (void *)9;
static long (*l4_checksum)(void *skb, u32 at, u64 from, u64 to, u64 flags) = (void *)11;
static long (*load)(const void *skb, u32 at, void *to, u32 length) = (void *)26;

// As much of the kernel's structures as we need; where it lies is found when the program is loaded.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common { u32 inum; };
struct net { struct ns_common ns; };
typedef struct { struct net *net; } possible_net_t;
struct net_device { int ifindex; possible_net_t nd_net; };
struct sk_buff { u32 len; struct net_device *dev; };
#pragma clang attribute pop

// Where a packet's time begins and ends.
enum { FROM_QUEUE = 1, TO_START = 2 };

// Bits of two octets of a header, the first of which has an even offset: checksums are over pairs.
struct bits {
	u32 at;  // from the beginning of what stands in the place of UDP's header
	u32 mask;  // 0: the header has none
};

// User space writes it as numbers of 32 bits.
struct config {
	u32 ifindex;
	u32 inum;  // network namespace
	u32 flags;
	u32 port;   // of the stamped protocol over UDP
	u32 first;  // delay before the first sample, us
	u32 eta;    // what an idle node multiplies its delay by
	u32 fixed;  // report this delay, us, if it is not 0
	// Where the words of the stamped header are.
	u32 number;  // IP protocol
	u32 octets;  // of the fixed header, ports included; at most HEADER_MAX
	struct bits is[2];
	u32 is_value[2];
	struct bits untouched[2];  // one of them set: only ends write this packet
	struct bits adapt, idle, hops;
	u32 delay;  // 32 bits at an even offset
};

// Written before the programs are loaded, and constant from then on: no look-up at each packet, and
// the verifier removes what this configuration never does.
const volatile struct config CONFIG = {0};

// The one reading; user space reads it as eight numbers.
struct reading {
	u64 average;  // ns, EWMA with weight 3/4 for what was
	u64 sample;   // ns, the last
	u64 samples;
	u64 last;     // when, ns of CLOCK_MONOTONIC
	u64 entered;
	u64 dropped;  // on the way, by the queue
	u64 stale;    // left after so long that it must be another packet at the same address
	u64 unused;
};

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	u32 *key;
	struct reading *value;
	int (*max_entries)[1];
} READING SEC(".maps");

// Packets under way: when they came. A hash table without chains: a packet that meets another one's
// slot takes it, and the other is not timed. The kernel's own hash tables cost several times as much.
enum { SLOT_BITS = 14, TAG_BITS = 24, TIME_BITS = 40 };
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	u32 *key;
	u64 *value;  // the tag above, the time below; 0: nobody
	int (*max_entries)[1 << SLOT_BITS];
} UNDER_WAY SEC(".maps");

static const u64 TOO_OLD = 10ull * 1000 * 1000 * 1000;
// The time in a slot starts anew every 18 minutes.
static const u64 TIME = (1ull << TIME_BITS) - 1;

ALWAYS struct reading *reading(void)
{
	u32 zero = 0;
	return map_lookup(&READING, &zero);
}

ALWAYS int ours(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	return dev && dev->ifindex == CONFIG.ifindex && dev->nd_net.net->ns.inum == CONFIG.inum;
}

// The address of a packet as a number, which the verifier lets us calculate with.
ALWAYS u64 address(u64 packet)
{
	u64 sum = 0;
	__sync_fetch_and_add(&sum, packet);
	return *(volatile u64 *)&sum;
}

// A number of an address in 38 bits: two packets at different addresses have different ones, for
// packets begin at multiples of 64 and lie within 16 TiB of each other, and multiplying by an odd
// number loses nothing.
ALWAYS u64 number(u64 packet)
{
	return (address(packet) >> 6) * 0x9E3779B97F4A7C15ull & ((1ull << (SLOT_BITS + TAG_BITS)) - 1);
}

ALWAYS u64 *slot(u64 number)
{
	u32 key = number >> TAG_BITS;
	return map_lookup(&UNDER_WAY, &key);
}

// Up to the driver, a packet keeps its length, unless it is cut into segments: then it is freed and
// leaves its beginning to a segment that may soon have its address, but not its length. Looking at
// every packet that is freed would cost more.
ALWAYS u64 tag(u64 number, u64 packet)
{
	u64 length = CONFIG.flags & TO_START ? ((struct sk_buff *)packet)->len : 0;
	return (number + length) << TIME_BITS;
}

ALWAYS void enter(u64 packet)
{
	struct reading *r = reading();
	u64 n = number(packet), *mine = slot(n);
	if (!r || !mine)
		return;
	*(volatile u64 *)mine = tag(n, packet) | (ktime_ns() & TIME);
	__sync_fetch_and_add(&r->entered, 1);
}

// When the packet came, in TIME_BITS; none if it is not under way. It is not any more.
ALWAYS int taken(u64 packet, u64 *came)
{
	u64 n = number(packet), *mine = slot(n);
	u64 value = mine ? *(volatile u64 *)mine : 0;
	if (!value || (value ^ tag(n, packet)) >> TIME_BITS)
		return 0;
	*(volatile u64 *)mine = 0;
	*came = value & TIME;
	return 1;
}

ALWAYS void leave(u64 packet)
{
	u64 came;
	struct reading *r;
	if (!taken(packet, &came) || !(r = reading()))
		return;
	u64 now = ktime_ns(), took = (now - came) & TIME;
	if (took > TOO_OLD) {
		__sync_fetch_and_add(&r->stale, 1);
		return;
	}
	// Two processors at once may lose a sample of the average, which then lacks one of many.
	u64 average = r->average;
	r->average = r->samples ? average - average / 4 + took / 4 : took;
	r->sample = took;
	r->last = now;
	__sync_fetch_and_add(&r->samples, 1);
}

// User space attaches only those that the configuration asks for.

SEC("tp_btf/net_dev_queue")
int on_queue(u64 *args)
{
	if (ours((struct sk_buff *)args[0]))
		enter(args[0]);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int on_start(u64 *args)
{
	if (!ours((struct sk_buff *)args[0]))
		return 0;
	if (CONFIG.flags & TO_START)
		leave(args[0]);
	else
		enter(args[0]);
	return 0;
}

// At every packet that is freed anywhere on the host: nothing but one slot is looked at.
SEC("tp_btf/consume_skb")
int on_consume(u64 *args)
{
	leave(args[0]);
	return 0;
}

SEC("tp_btf/kfree_skb")
int on_free(u64 *args)
{
	u64 came;
	// A driver reports a failed transmission so, too; a queue's drop is no transmission.
	if (!(CONFIG.flags & (FROM_QUEUE | TO_START))) {
		leave(args[0]);
	} else if (taken(args[0], &came)) {
		struct reading *r = reading();
		if (r)
			__sync_fetch_and_add(&r->dropped, 1);
	}
	return 0;
}

// ---- stamping a header at the device's egress (Behaviour 7.5) ----

typedef unsigned char u8;
typedef unsigned short u16;

enum { ETHERNET = 14, UDP_CHECKSUM = 6, UDP = 17, HEADER_MAX = 64 };
// Idle for so long, a node's average says nothing of the present (Behaviour 7.4).
static const u64 T_IDLE = 100 * 1000 * 1000;
// Of l4_checksum: how many octets change; zero stays zero.
enum { TWO = 2, FOUR = 4, MARK_MANGLED_0 = 1 << 5 };

ALWAYS u16 swap(u16 x) { return __builtin_bswap16(x); }

// What this node reports, us.
ALWAYS u32 delay_here(const struct reading *r, int adapt, int *idle)
{
	u64 us = CONFIG.first;
	*idle = 0;
	if (CONFIG.fixed)
		return CONFIG.fixed;
	if (r->samples)
		us = r->average / 1000;
	*idle = ktime_ns() - r->last > T_IDLE;
	if (*idle && !adapt)
		us *= CONFIG.eta;
	return us > 0xFFFFFFFF ? 0xFFFFFFFF : us;
}

// As much of uapi's struct __sk_buff as we need, and where it lies there.
struct context {
	u32 unused[4];
	u32 protocol;
	u32 between[14];
	u32 data, data_end;
};

// Whether a packet may be one to stamp: the same question as below, but of the octets that lie at
// hand, which is next to nothing for all the others, and yes if they do not.
ALWAYS int may_be_ours(const struct context *skb)
{
	const u8 *begin = (const u8 *)(long)skb->data;
	const u8 *ip = begin + ETHERNET;
	if (skb->protocol != swap(0x0800))
		return 0;
	if (ip + 20 > (const u8 *)(long)skb->data_end)
		return 1;
	return ip[9] == UDP || ip[9] == CONFIG.number;
}

// A header, or more, as it lies in the packet, from UDP's or what stands in its place.
struct head {
	u16 pair[HEADER_MAX / 2];
};

ALWAYS u16 *at(struct head *head, u32 octet) { return (u16 *)((u8 *)head + octet); }

ALWAYS u32 get(struct head *head, u32 octet) { return swap(*at(head, octet)); }

ALWAYS u32 masked(struct head *head, const volatile struct bits *bits)
{
	return get(head, bits->at) & bits->mask;
}

// Where the header begins, and what it says; 0 if this is no such packet.
ALWAYS u32 find(void *skb, struct head *head, int *udp)
{
	u8 begin[22];  // the type of the frame and IP's header
	if (load(skb, 12, begin, 22) || begin[0] != 8 || begin[1] != 0)
		return 0;
	const u8 *ip = begin + 2;
	u32 start = ETHERNET + (ip[0] & 15) * 4;
	int later_fragment = (ip[6] & 0x1F) | ip[7];
	u32 length = (u32)ip[2] << 8 | ip[3], octets = CONFIG.octets;
	if (ip[0] >> 4 != 4 || later_fragment || (ip[9] != UDP && ip[9] != CONFIG.number))
		return 0;
	if (octets > sizeof *head || length < start - ETHERNET + octets ||
	    load(skb, start, head, octets))
		return 0;
	*udp = ip[9] == UDP;
	if (*udp && get(head, 0) != CONFIG.port && get(head, 2) != CONFIG.port)
		return 0;
	for (int i = 0; i < 2; i++)
		if (masked(head, &CONFIG.is[i]) != CONFIG.is_value[i])
			return 0;
	return start;
}

// Replace two octets, or four, of a packet whose UDP checksum lies at `sum`, if it has one.
ALWAYS void put(void *skb, u32 sum, int has_sum, u32 at, u64 from, u64 to, const void *value,
		u32 length)
{
	if (has_sum)
		l4_checksum(skb, sum, from, to, length | MARK_MANGLED_0);
	store(skb, at, value, length, 0);
}

// Replace a pair of octets, in the packet and in what was read of it.
ALWAYS void put_pair(void *skb, u32 start, int udp, struct head *head, u32 octet, u32 value)
{
	u16 before = *at(head, octet), after = swap(value);
	if (after == before)
		return;
	*at(head, octet) = after;
	put(skb, start + UDP_CHECKSUM, udp, start + octet, before, after, &after, TWO);
}

SEC("classifier")
int stamp(void *skb)
{
	const int PASS = -1;  // on to the next program, or out
	struct reading *r;
	int udp = 0, idle = 0;
	if (!may_be_ours(skb) || !(r = reading()))
		return PASS;
	struct head head;
	u32 start = find(skb, &head, &udp);
	if (!start || masked(&head, &CONFIG.untouched[0]) || masked(&head, &CONFIG.untouched[1]))
		return PASS;
	u32 us = delay_here(r, masked(&head, &CONFIG.adapt), &idle);
	// A count that is full stays so; else its lowest bit is added.
	u32 mask = CONFIG.hops.mask, hops = get(&head, CONFIG.hops.at);
	if ((hops & mask) != mask)
		put_pair(skb, start, udp, &head, CONFIG.hops.at, hops + (mask & -mask));
	u32 octet = CONFIG.delay;
	if (us > (get(&head, octet) << 16 | get(&head, octet + 2))) {
		u32 after = __builtin_bswap32(us);
		u32 before = *at(&head, octet) | (u32)*at(&head, octet + 2) << 16;
		put(skb, start + UDP_CHECKSUM, udp, start + octet, before, after, &after, FOUR);
		u32 mark = CONFIG.idle.mask, flags = get(&head, CONFIG.idle.at);
		put_pair(skb, start, udp, &head, CONFIG.idle.at, idle ? flags | mark : flags & ~mark);
	}
	return PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
