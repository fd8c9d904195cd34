/* Trains: UDP packets of one flow that the kernel moves as one buffer (UDP segmentation offload).
 *
 * A host hands the kernel up to 64 datagrams of equal length in one call; a veth pair passes them on as one buffer
 * with one set of headers, and a packet socket with PACKET_VNET_HDR receives that buffer, or sends one. A train costs
 * the kernel about what a packet costs. Nothing but packet I/O (io.c) knows of trains: they are cut into packets
 * before the traffic manager sees them, and packets that leave together are joined after it.
 *
 * What is joined is taken apart again by the receiver's kernel, so a packet must come out of a train as it went in.
 * Therefore only plain UDP over IPv4 is joined: no VLAN tag, no IP options, no fragment, no padding, and checksums
 * that are right (the UDP checksum may be 0, none; out of a train it comes with one). The kernel numbers a train's
 * packets upwards in the IPv4 identification. Where the sender forbids fragmentation the field has no meaning
 * (RFC 6864); elsewhere packets are joined only if their numbers run upwards.
 *
 * Checksums: what a host's kernel leaves to the network card (CHECKSUM_PARTIAL) arrives unfinished and is completed
 * here, before anything looks at it. */
#ifndef TRAIN_H
#define TRAIN_H

#include <linux/virtio_net.h>
#include <stdint.h>

#include "p4rt.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4 /* headers of Linux before 6.2 */
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define TRAIN_PACKETS 64      /* that every kernel with UDP segmentation takes; newer ones take 128 */
#define TRAIN_BYTES 65000     /* of payload: an IPv4 datagram has at most 65,535 bytes */
#define TRAIN_HEADERS 42      /* Ethernet, IPv4 without options, UDP: of a train that is made here */
#define TRAIN_CUT_HEADERS 128 /* the longest that are cut off */

/* A received train, and how far it has been cut. */
typedef struct train_cut {
    uint8_t *data;
    uint32_t length;    /* of the whole buffer */
    uint32_t network;   /* where the IP header begins */
    uint32_t transport; /* where the UDP header begins */
    uint32_t headers;   /* their length, from the Ethernet header on */
    uint32_t payload;   /* bytes of each packet but the last */
    uint32_t at;        /* where the next packet's payload begins */
    uint16_t identification;
    uint8_t version; /* of IP */
    uint64_t pseudo; /* sum of what the UDP checksum covers beside the datagram, without the length */
    uint8_t kept[TRAIN_CUT_HEADERS];
} train_cut;

/* Fills in the checksum that a kernel left unfinished: over the bytes from `start` on, stored at start + offset.
 * -1: these places are not in the frame. */
P4_EXPORT int train_complete_checksum(uint8_t *frame, uint32_t length, uint32_t start, uint32_t offset);

/* Begins to cut a received buffer of UDP segmentation; -1: it is none that can be cut. How many packets there are
 * otherwise. */
P4_EXPORT int train_open(train_cut *cut, uint8_t *data, uint32_t length, const struct virtio_net_hdr *offload);
/* The next packet, complete with lengths and checksums, or NULL. It lies in the buffer and overwrites the packet
 * before it. */
P4_EXPORT uint8_t *train_next(train_cut *cut, uint32_t *length);

/* How many bytes of payload a packet would bring into a train; 0: it must leave alone. */
P4_EXPORT uint32_t train_payload(const uint8_t *frame, uint32_t length);
/* Whether a packet may be number `place` of the train that `first` begins; both passed train_payload. */
P4_EXPORT int train_matches(const uint8_t *first, const uint8_t *frame, uint32_t place);
/* Turns the headers of a train's first packet into those of the whole train, and says so in `offload`. `payload`: of
 * the first packet; `total`: of all. */
P4_EXPORT void train_head(uint8_t *first, uint32_t payload, uint32_t total, struct virtio_net_hdr *offload);

#endif
