/* See train.h. Everything here works on bytes that it is given; nothing is kept, nothing is sent. */
#include "train.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#define UDP_BYTES 8
#define UDP_CHECKSUM_AT 6
#define VLAN_BYTES 4
#define IP4_BYTES 20
#define IP6_BYTES 40
#define IP4_MORE_OR_OFFSET 0x3fff /* of the 16 bits with the fragment's place */
#define IP4_DONT_FRAGMENT 0x4000

/* ---- checksums (RFC 1071): sums of 16-bit words in memory order, which are right in either byte order ---- */

static uint64_t add_bytes(const uint8_t *bytes, uint32_t count, uint64_t sum) {
    for (; count >= 4; bytes += 4, count -= 4) {
        uint32_t word;
        memcpy(&word, bytes, 4);
        sum += word;
    }
    if (count & 2) {
        uint16_t half;
        memcpy(&half, bytes, 2);
        sum += half;
        bytes += 2;
    }
    if (count & 1) {
        uint16_t last = 0;
        memcpy(&last, bytes, 1);
        sum += last;
    }
    return sum;
}

static uint16_t folded(uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static uint16_t checksum(uint64_t sum) { return (uint16_t)~folded(sum); }

static uint16_t get16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, 2);
    return ntohs(value);
}

static void put16(uint8_t *at, uint32_t value) {
    uint16_t big = htons((uint16_t)value);
    memcpy(at, &big, 2);
}

int train_complete_checksum(uint8_t *frame, uint32_t length, uint32_t start, uint32_t offset) {
    if (start > length || offset > length || start + offset + 2 > length) return -1;
    /* The field holds the sum of the pseudo-header so far. */
    uint16_t sum = checksum(add_bytes(frame + start, length - start, 0));
    if (!sum) sum = 0xffff; /* in UDP 0 says that there is no checksum */
    memcpy(frame + start + offset, &sum, 2);
    return 0;
}

/* ---- cutting ---- */

int train_open(train_cut *cut, uint8_t *data, uint32_t length, const struct virtio_net_hdr *offload) {
    uint32_t network = ETH_HLEN;
    if (length < ETH_HLEN + IP4_BYTES + UDP_BYTES) return -1;
    uint16_t type = get16(data + 2 * ETH_ALEN);
    while (type == ETH_P_8021Q || type == ETH_P_8021AD) {
        if (network + VLAN_BYTES + IP4_BYTES + UDP_BYTES > length) return -1;
        type = get16(data + network + 2);
        network += VLAN_BYTES;
    }
    const uint8_t *ip = data + network;
    uint32_t addresses, transport = offload->csum_start;
    if (type == ETH_P_IP && transport >= network + IP4_BYTES && ip[9] == IPPROTO_UDP) {
        cut->version = 4;
        addresses = 8;
        cut->pseudo = add_bytes(ip + 12, addresses, htons(IPPROTO_UDP));
    } else if (type == ETH_P_IPV6 && transport >= network + IP6_BYTES) {
        cut->version = 6;
        addresses = 32;
        cut->pseudo = add_bytes(ip + 8, addresses, htons(IPPROTO_UDP));
    } else {
        return -1;
    }
    uint32_t headers = transport + UDP_BYTES;
    if (headers > TRAIN_CUT_HEADERS || headers >= length || !offload->gso_size) return -1;
    cut->data = data;
    cut->length = length;
    cut->network = network;
    cut->transport = transport;
    cut->headers = cut->at = headers;
    cut->payload = offload->gso_size;
    cut->identification = get16(ip + 4);
    memcpy(cut->kept, data, headers);
    return (int)((length - headers + cut->payload - 1) / cut->payload);
}

uint8_t *train_next(train_cut *cut, uint32_t *length) {
    if (cut->at >= cut->length) return NULL;
    uint32_t left = cut->length - cut->at, payload = left < cut->payload ? left : cut->payload;
    uint8_t *packet = cut->data + cut->at - cut->headers;
    memcpy(packet, cut->kept, cut->headers);
    uint8_t *ip = packet + cut->network, *udp = packet + cut->transport;
    uint32_t datagram = UDP_BYTES + payload;
    if (cut->version == 4) {
        uint32_t header = cut->transport - cut->network;
        put16(ip + 2, header + datagram);
        put16(ip + 4, cut->identification++);
        memset(ip + 10, 0, 2);
        uint16_t sum = checksum(add_bytes(ip, header, 0));
        memcpy(ip + 10, &sum, 2);
    } else {
        put16(ip + 4, cut->transport - cut->network - IP6_BYTES + datagram);
    }
    put16(udp + 4, datagram);
    memset(udp + UDP_CHECKSUM_AT, 0, 2);
    uint16_t sum = checksum(add_bytes(udp, datagram, cut->pseudo + htons((uint16_t)datagram)));
    if (!sum) sum = 0xffff;
    memcpy(udp + UDP_CHECKSUM_AT, &sum, 2);
    cut->at += payload;
    *length = cut->headers + payload;
    return packet;
}

/* ---- joining ---- */

static uint64_t pseudo_header(const uint8_t *ip, uint32_t datagram) {
    return add_bytes(ip + 12, 8, (uint64_t)htons(IPPROTO_UDP) + htons((uint16_t)datagram));
}

uint32_t train_payload(const uint8_t *frame, uint32_t length) {
    const uint8_t *ip = frame + ETH_HLEN, *udp = ip + IP4_BYTES;
    if (length <= TRAIN_HEADERS || get16(frame + 2 * ETH_ALEN) != ETH_P_IP || ip[0] != 0x45) return 0;
    uint32_t datagram = length - ETH_HLEN - IP4_BYTES;
    if (ip[9] != IPPROTO_UDP || get16(ip + 2) != length - ETH_HLEN || get16(udp + 4) != datagram) return 0;
    if (get16(ip + 6) & IP4_MORE_OR_OFFSET || folded(add_bytes(ip, IP4_BYTES, 0)) != 0xffff) return 0;
    if (get16(udp + UDP_CHECKSUM_AT) && folded(add_bytes(udp, datagram, pseudo_header(ip, datagram))) != 0xffff)
        return 0;
    return datagram - UDP_BYTES;
}

int train_matches(const uint8_t *first, const uint8_t *frame, uint32_t place) {
    const uint8_t *a = first + ETH_HLEN, *b = frame + ETH_HLEN;
    return !memcmp(first, frame, ETH_HLEN + 2) /* addresses, types, traffic class with the ECN bits */
           && !memcmp(a + 6, b + 6, 4)         /* fragmentation, TTL, protocol */
           && !memcmp(a + 12, b + 12, 12)      /* addresses, UDP ports */
           && (get16(a + 6) & IP4_DONT_FRAGMENT || (uint16_t)(get16(b + 4) - get16(a + 4)) == place);
}

void train_head(uint8_t *first, uint32_t payload, uint32_t total, struct virtio_net_hdr *offload) {
    uint8_t *ip = first + ETH_HLEN, *udp = ip + IP4_BYTES;
    put16(ip + 2, IP4_BYTES + UDP_BYTES + total);
    memset(ip + 10, 0, 2);
    uint16_t sum = checksum(add_bytes(ip, IP4_BYTES, 0));
    memcpy(ip + 10, &sum, 2);
    put16(udp + 4, UDP_BYTES + total);
    sum = folded(pseudo_header(ip, UDP_BYTES + total)); /* unfinished: the kernel goes on from here */
    memcpy(udp + UDP_CHECKSUM_AT, &sum, 2);
    *offload = (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                       .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
                                       .hdr_len = TRAIN_HEADERS,
                                       .gso_size = (uint16_t)payload,
                                       .csum_start = ETH_HLEN + IP4_BYTES,
                                       .csum_offset = UDP_CHECKSUM_AT};
}
