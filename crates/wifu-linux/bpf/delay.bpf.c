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
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_LRU_HASH = 9 };
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
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
struct sk_buff { struct net_device *dev; };
#pragma clang attribute pop

// Where a packet's time begins and ends.
enum { FROM_QUEUE = 1, TO_START = 2 };

struct config {
	u32 ifindex;
	u32 inum;  // network namespace
	u32 flags;
	u32 port;   // of ATP over UDP
	u32 first;  // delay before the first sample, us
	u32 eta;    // what an idle node multiplies its delay by
	u32 fixed;  // report this delay, us, if it is not 0
	u32 unused;
};

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
	struct config *value;
	int (*max_entries)[1];
} CONFIG SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	u32 *key;
	struct reading *value;
	int (*max_entries)[1];
} READING SEC(".maps");

// Packets under way, by address: when they came.
struct {
	int (*type)[BPF_MAP_TYPE_LRU_HASH];
	u64 *key;
	u64 *value;
	int (*max_entries)[16384];
} UNDER_WAY SEC(".maps");

static const u64 TOO_OLD = 10ull * 1000 * 1000 * 1000;

ALWAYS struct config *config(void)
{
	u32 zero = 0;
	return map_lookup(&CONFIG, &zero);
}

ALWAYS struct reading *reading(void)
{
	u32 zero = 0;
	return map_lookup(&READING, &zero);
}

ALWAYS int ours(const struct config *c, struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	return dev && dev->ifindex == c->ifindex && dev->nd_net.net->ns.inum == c->inum;
}

ALWAYS void enter(struct sk_buff *skb)
{
	struct reading *r = reading();
	u64 key = (u64)skb, now = ktime_ns();
	map_update(&UNDER_WAY, &key, &now, 0);
	if (r)
		__sync_fetch_and_add(&r->entered, 1);
}

ALWAYS void leave(u64 key)
{
	struct reading *r = reading();
	u64 *came = map_lookup(&UNDER_WAY, &key);
	if (!r || !came)
		return;
	u64 now = ktime_ns(), took = now - *came;
	map_delete(&UNDER_WAY, &key);
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

SEC("tp_btf/net_dev_queue")
int on_queue(u64 *args)
{
	struct config *c = config();
	struct sk_buff *skb = (struct sk_buff *)args[0];
	if (c && c->flags & FROM_QUEUE && ours(c, skb))
		enter(skb);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int on_start(u64 *args)
{
	struct config *c = config();
	struct sk_buff *skb = (struct sk_buff *)args[0];
	if (!c || !ours(c, skb))
		return 0;
	if (c->flags & TO_START)
		leave((u64)skb);
	else if (!(c->flags & FROM_QUEUE))
		enter(skb);
	return 0;
}

SEC("tp_btf/consume_skb")
int on_consume(u64 *args)
{
	struct config *c = config();
	u64 key = args[0];
	if (!c)
		return 0;
	if (!(c->flags & TO_START))
		leave(key);
	// Cut into segments on its way: another packet may have its address soon.
	else if (map_lookup(&UNDER_WAY, &key))
		map_delete(&UNDER_WAY, &key);
	return 0;
}

SEC("tp_btf/kfree_skb")
int on_free(u64 *args)
{
	struct config *c = config();
	u64 key = args[0];
	if (!c)
		return 0;
	// A driver reports a failed transmission so, too; a queue's drop is no transmission.
	if (!(c->flags & (FROM_QUEUE | TO_START))) {
		leave(key);
	} else if (map_lookup(&UNDER_WAY, &key)) {
		struct reading *r = reading();
		map_delete(&UNDER_WAY, &key);
		if (r)
			__sync_fetch_and_add(&r->dropped, 1);
	}
	return 0;
}

// ---- stamping ATP's header at the device's egress (spec 7.5) ----

typedef unsigned char u8;
typedef unsigned short u16;

enum { ETHERNET = 14, UDP_HEADER = 8, UDP_CHECKSUM = 6, UDP = 17, ATP = 219 };
// Offsets in ATP's header, and bits of its control word.
enum { CONTROL = 2, HOPS = 6, DELAY = 16, ATP_HEADER = 40 };
enum { SACK_OPT = 0x4000, ADAPT = 0x0800, IDLE = 0x0400 };
// Idle for so long, a node's average says nothing of the present (spec 7.4).
static const u64 T_IDLE = 100 * 1000 * 1000;
// Of l4_checksum: how many octets change; zero stays zero.
enum { TWO = 2, FOUR = 4, MARK_MANGLED_0 = 1 << 5 };

ALWAYS u16 swap(u16 x) { return __builtin_bswap16(x); }

// What this node reports, us.
ALWAYS u32 delay_here(const struct config *c, const struct reading *r, int adapt, int *idle)
{
	u64 us = c->first;
	*idle = 0;
	if (c->fixed)
		return c->fixed;
	if (r->samples)
		us = r->average / 1000;
	*idle = ktime_ns() - r->last > T_IDLE;
	if (*idle && !adapt)
		us *= c->eta;
	return us > 0xFFFFFFFF ? 0xFFFFFFFF : us;
}

// Where ATP's header begins; 0 if this is no ATP packet.
ALWAYS u32 find(void *skb, const struct config *c, int *udp)
{
	u8 ip[20];
	u16 type, ports[2];
	u8 begin[2];
	if (load(skb, 12, &type, 2) || type != swap(0x0800) || load(skb, ETHERNET, ip, 20))
		return 0;
	u32 at = ETHERNET + (ip[0] & 15) * 4;
	int later_fragment = (ip[6] & 0x1F) | ip[7];
	u32 length = (u32)ip[2] << 8 | ip[3];
	if (ip[0] >> 4 != 4 || later_fragment || (ip[9] != UDP && ip[9] != ATP))
		return 0;
	if (length < at - ETHERNET + UDP_HEADER + ATP_HEADER || load(skb, at, ports, 4))
		return 0;
	*udp = ip[9] == UDP;
	if (*udp && swap(ports[0]) != c->port && swap(ports[1]) != c->port)
		return 0;
	at += UDP_HEADER;
	if (load(skb, at, begin, 2) || begin[0] != 1 || begin[1] != 1)
		return 0;
	return at;
}

// Replace two octets, or four, of a packet whose UDP checksum lies at `sum`, if it has one.
ALWAYS void put(void *skb, u32 sum, int has_sum, u32 at, u64 from, u64 to, const void *value,
		u32 length)
{
	if (has_sum)
		l4_checksum(skb, sum, from, to, length | MARK_MANGLED_0);
	store(skb, at, value, length, 0);
}

SEC("classifier")
int stamp(void *skb)
{
	const int PASS = -1;  // on to the next program, or out
	struct config *c = config();
	struct reading *r = reading();
	int udp = 0, idle = 0;
	if (!c || !r)
		return PASS;
	u32 at = find(skb, c, &udp);
	u16 control, hops;
	u32 before;
	if (!at || load(skb, at + CONTROL, &control, 2) || load(skb, at + HOPS, &hops, 2) ||
	    load(skb, at + DELAY, &before, 4))
		return PASS;
	u16 flags = swap(control);
	if (flags & SACK_OPT)
		return PASS;
	u32 us = delay_here(c, r, flags & ADAPT, &idle);
	u32 sum = at - UDP_HEADER + UDP_CHECKSUM;
	// Two octets with the hop count first: checksums are over pairs.
	u8 count = swap(hops) >> 8;
	u16 counted = swap((count == 255 ? 255 : count + 1) << 8 | (swap(hops) & 255));
	if (counted != hops)
		put(skb, sum, udp, at + HOPS, hops, counted, &counted, TWO);
	if (us > __builtin_bswap32(before)) {
		u32 after = __builtin_bswap32(us);
		u16 marked = swap(idle ? flags | IDLE : flags & ~IDLE);
		put(skb, sum, udp, at + DELAY, before, after, &after, FOUR);
		if (marked != control)
			put(skb, sum, udp, at + CONTROL, control, marked, &marked, TWO);
	}
	return PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
