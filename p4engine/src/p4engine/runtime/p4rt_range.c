/* Ranges. In a table with range keys the entries of a slot (those with equal keys except the ranges)
 * form a search tree over the first range key: by its lower end, and every node knows which entry of its subtree
 * ends last and which one wins. A lookup walks only where an entry both contains the key and beats the best one
 * so far: for ranges that overlap little that is the depth of the tree. The tree is a treap (the nodes' weights
 * are mixed from their order of insertion), so it stays shallow in whatever order entries come.
 *
 * Further range keys of the same table are only compared. */
#include "p4rt_entry.h"

/* -1, 0, 1 for values of several words, lowest word first. */
static int compare(const uint64_t *a, const uint64_t *b, uint32_t words) {
    for (uint32_t w = words; w-- > 0;)
        if (a[w] != b[w]) return a[w] < b[w] ? -1 : 1;
    return 0;
}

/* The order in the tree: by lower end, then anything that tells two entries apart. */
static int order(const p4_table *t, const p4_entry *a, const p4_entry *b) {
    int by_low = compare(a->key + t->range_word, b->key + t->range_word, t->range_words);
    if (by_low) return by_low;
    int by_match = compare(a->key, b->key, 2 * t->desc->key_words); /* the masks follow the keys */
    if (by_match) return by_match;
    return a->priority < b->priority ? -1 : a->priority > b->priority;
}

static uint64_t weight(const p4_entry *e) {
    return p4_mix(e->order, 1);
}

/* These are in the subtree of `at`, too. */
static void account(const p4_table *t, p4_entry *at, p4_entry *reach, p4_entry *best) {
    if (compare(reach->mask + t->range_word, at->reach->mask + t->range_word, t->range_words) > 0)
        at->reach = reach;
    if (p4_before(best, at->best)) at->best = best;
}

static void refresh(const p4_table *t, p4_entry *e) {
    e->reach = e->best = e;
    if (e->left) account(t, e, e->left->reach, e->left->best);
    if (e->right) account(t, e, e->right->reach, e->right->best);
}

p4_entry *p4_ranges_insert(const p4_table *t, p4_entry *root, p4_entry *e) {
    if (!root) {
        e->left = e->right = NULL;
        refresh(t, e);
        return e;
    }
    p4_entry *top = root;
    if (order(t, e, root) < 0) {
        root->left = p4_ranges_insert(t, root->left, e);
        if (weight(root->left) > weight(root)) {
            top = root->left;
            root->left = top->right;
            top->right = root;
        }
    } else {
        root->right = p4_ranges_insert(t, root->right, e);
        if (weight(root->right) > weight(root)) {
            top = root->right;
            root->right = top->left;
            top->left = root;
        }
    }
    if (top == root) {
        account(t, root, e, e);
    } else {
        refresh(t, root);
        refresh(t, top);
    }
    return top;
}

static p4_entry *merge(const p4_table *t, p4_entry *low, p4_entry *high) {
    if (!low) return high;
    if (!high) return low;
    p4_entry *top = weight(low) > weight(high) ? low : high;
    if (top == low)
        low->right = merge(t, low->right, high);
    else
        high->left = merge(t, low, high->left);
    refresh(t, top);
    return top;
}

p4_entry *p4_ranges_remove(const p4_table *t, p4_entry *root, p4_entry *e) {
    if (root == e) return merge(t, e->left, e->right);
    if (order(t, e, root) < 0)
        root->left = p4_ranges_remove(t, root->left, e);
    else
        root->right = p4_ranges_remove(t, root->right, e);
    refresh(t, root);
    return root;
}

p4_entry *p4_ranges_same(const p4_table *t, p4_entry *root, const p4_entry *e) {
    while (root) {
        int way = order(t, e, root);
        if (!way) break;
        root = way < 0 ? root->left : root->right;
    }
    return root;
}

static int contains(const p4_table *t, const p4_entry *e, const uint64_t *key) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < t->desc->key_count; k++) {
        const p4_key_desc *d = &t->desc->keys[k];
        if (d->kind == P4_RANGE && (compare(key + at, e->key + at, d->words) < 0 ||
                                    compare(key + at, e->mask + at, d->words) > 0))
            return 0;
        at += d->words;
    }
    return 1;
}

p4_entry *p4_ranges_find(const p4_table *t, p4_entry *e, const uint64_t *key, p4_entry *found) {
    const uint64_t *point = key + t->range_word;
    while (e && p4_before(e->best, found) &&
           compare(point, e->reach->mask + t->range_word, t->range_words) <= 0) {
        found = p4_ranges_find(t, e->left, key, found);
        if (compare(point, e->key + t->range_word, t->range_words) < 0) break; /* the right ones begin later */
        if (p4_before(e, found) && contains(t, e, key)) found = e;
        e = e->right;
    }
    return found;
}
