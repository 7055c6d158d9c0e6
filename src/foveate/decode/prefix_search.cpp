// Prefix search over many frames: the arithmetic of `prefix.py`, operation by operation, on tries instead of tuples.
#include "prelude.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

constexpr double NONE = -INFINITY;

static inline double added(double x, double y) {
    double most = x >= y ? x : y, least = x >= y ? y : x;
    return least == NONE ? most : most + std::log1p(std::exp(least - most));
}

// The frames of a path's last token, and the link of the token before, or −1.
struct Link {
    int64_t before;
    int32_t first, last, peak;
    double value;
};

struct Path {
    double score;
    int64_t link;
};

struct Node {
    int64_t parent;
    int64_t token;
};

struct Prefix {
    int64_t node;
    double blank, token;
    Path blank_path, token_path;
    double bonus;
};

// A prefix that stays has the token 0.
struct Candidate {
    double score;
    int64_t place, token;
    bool operator<(const Candidate& other) const {
        if (score != other.score) return score > other.score;
        return place != other.place ? place < other.place : token < other.token;
    }
};

struct Search {
    std::vector<Node> nodes{{-1, 0}};
    std::unordered_map<int64_t, int64_t> children;
    std::vector<Link> links;
    std::vector<Prefix> beam, stays, next;
    std::vector<int64_t> parents;
    std::vector<Candidate> candidates;
    std::vector<double> scores;
    std::vector<int64_t> tokens;
    int64_t vocab, size, greedy, label;
    double insertion;

    int64_t child(int64_t node, int64_t token) {
        auto [entry, is_new] = children.try_emplace(node * vocab + token, (int64_t)nodes.size());
        if (is_new) nodes.push_back({node, token});
        return entry->second;
    }

    int64_t link(int64_t before, int32_t first, int32_t last, int32_t peak, double value) {
        links.push_back({before, first, last, peak, value});
        return links.size() - 1;
    }

    Path onto(Path path, double gain, int32_t frame) {
        if (path.link < 0 || path.score + gain == NONE) return {NONE, -1};
        Link old = links[path.link];
        bool higher = gain > old.value;
        return {path.score + gain,
                link(old.before, old.first, frame, higher ? frame : old.peak, higher ? gain : old.value)};
    }

    Path to(Path path, double gain, int32_t frame) {
        return {path.score + gain, link(path.link, frame, frame, frame, gain)};
    }

    int64_t last(const Prefix& prefix) { return nodes[prefix.node].token; }
    static double total(const Prefix& prefix) { return added(prefix.blank, prefix.token); }
    static double score(const Prefix& prefix) { return total(prefix) + prefix.bonus; }
    static Path path(const Prefix& prefix) {
        return prefix.token_path.score >= prefix.blank_path.score ? prefix.token_path : prefix.blank_path;
    }
    double before(const Prefix& prefix, int64_t token) { return token == last(prefix) ? prefix.blank : total(prefix); }
    Path path_before(const Prefix& prefix, int64_t token) {
        return token == last(prefix) ? prefix.blank_path : path(prefix);
    }

    Prefix stayed(const Prefix& prefix, const double* row, int32_t frame, const Prefix* parent) {
        Prefix result = prefix;
        int64_t token = last(prefix);
        result.token = NONE;
        result.token_path = {NONE, -1};
        if (prefix.node > 0) {
            double gain = row[token];
            result.token = prefix.token + gain;
            Path arriving = {NONE, -1};
            if (parent) {
                result.token = added(result.token, before(*parent, token) + gain);
                arriving = path_before(*parent, token);
            }
            result.token_path = arriving.score > prefix.token_path.score ? to(arriving, gain, frame)
                                                                          : onto(prefix.token_path, gain, frame);
        }
        Path best = path(prefix);
        result.blank = total(prefix) + row[0];
        result.blank_path = {best.score + row[0], best.score + row[0] == NONE ? -1 : best.link};
        return result;
    }

    void advance(const double* row, int32_t frame) {
        int64_t count = beam.size(), top = 0;
        double highest = row[0];
        for (int64_t token = 1; token < vocab; token++)
            if (row[token] > highest) highest = row[token], top = token;

        parents.assign(count, -1);
        for (int64_t place = 0; place < count; place++)
            for (int64_t other = 0; other < count && beam[place].node > 0; other++)
                if (beam[other].node == nodes[beam[place].node].parent) parents[place] = other;
        Candidate target = {0, greedy, 0};
        if (top != 0 && top != label) {
            target.token = top;
            for (int64_t place = 0; place < count; place++)
                if (parents[place] == greedy && last(beam[place]) == top) target = {0, place, 0};
        }

        stays.clear();
        candidates.clear();
        scores.clear();
        for (int64_t place = 0; place < count; place++) {
            stays.push_back(stayed(beam[place], row, frame, parents[place] < 0 ? nullptr : &beam[parents[place]]));
            scores.push_back(score(stays[place]));
            if (scores[place] > NONE || (place == target.place && target.token == 0))
                candidates.push_back({scores[place], place, 0});
        }
        double bar = NONE;
        if (count >= size) {
            std::nth_element(scores.begin(), scores.begin() + (size - 1), scores.end(), std::greater<double>());
            bar = scores[size - 1];
        }

        double most = NONE;
        for (const Prefix& prefix : beam) most = std::max(most, score(prefix));
        tokens.clear();  // a little below the bar, because rounding depends on the order of a sum
        for (int64_t token = 1; token < vocab; token++)
            if (most + row[token] + insertion >= bar - 1e-6 * (1 + std::fabs(bar))) tokens.push_back(token);
        for (int64_t place = 0; place < count; place++) {
            const Prefix& prefix = beam[place];
            double all = total(prefix), bonus = prefix.bonus + insertion;
            int64_t repeat = last(prefix);
            auto candidate = [&](int64_t token) {
                return Candidate{((token == repeat ? prefix.blank : all) + row[token]) + bonus, place, token};
            };
            for (int64_t token : tokens) {
                Candidate each = candidate(token);
                if (!(each.score >= bar && each.score > NONE)) continue;
                bool is_kept = place == target.place && token == target.token;  // it follows below
                for (int64_t other = 0; other < count && !is_kept; other++)
                    is_kept = parents[other] == place && last(beam[other]) == token;
                if (!is_kept) candidates.push_back(each);
            }
            if (target.place == place && target.token != 0) candidates.push_back(candidate(target.token));
        }
        int64_t kept = std::min<int64_t>(size, candidates.size());
        std::partial_sort(candidates.begin(), candidates.begin() + kept, candidates.end());
        auto is_target = [&](const Candidate& each) { return each.place == target.place && each.token == target.token; };
        auto chosen = std::find_if(candidates.begin(), candidates.begin() + kept, is_target);
        if (chosen == candidates.begin() + kept) *--chosen = target;

        next.clear();
        for (int64_t rank = 0; rank < kept; rank++) {
            const Candidate& each = candidates[rank];
            if (each.token == 0) {
                next.push_back(stays[each.place]);
                continue;
            }
            const Prefix& prefix = beam[each.place];
            double gain = row[each.token];
            next.push_back({child(prefix.node, each.token), NONE, before(prefix, each.token) + gain, {NONE, -1},
                            to(path_before(prefix, each.token), gain, frame), prefix.bonus + insertion});
        }
        greedy = chosen - candidates.begin();
        label = top;
        std::swap(beam, next);
    }
};

extern "C" {

// Reads the beam of `count` prefixes and writes the beam after all rows [frames, vocab]; returns its number of prefixes.
// `sums` [size, 5]: log-sums of paths that end in a blank and in the last token, the best path of either kind, the bonus.
// `lengths` [size], `tokens` [size, room]; for the best path of either kind, `spans` [size, 2, room, 3] and the
// probabilities at the peaks, `values` [size, 2, room]. `greedy` [2]: the place of the best path and its last label.
int64_t search(
    const double* rows, int64_t frames, int64_t vocab, int64_t read, int64_t count, int64_t size, double insertion,
    int64_t room, double* sums, int64_t* lengths, int64_t* tokens, int32_t* spans, double* values, int64_t* greedy
) {
    Search search;
    search.vocab = vocab;
    search.size = size;
    search.insertion = insertion;
    search.greedy = greedy[0];
    search.label = greedy[1];
    for (int64_t place = 0; place < count; place++) {
        const double* own = sums + 5 * place;
        int64_t node = 0, ends[2] = {-1, -1};
        for (int64_t i = 0; i < lengths[place]; i++) node = search.child(node, tokens[place * room + i]);
        for (int64_t kind = 0; kind < 2; kind++) {
            if (own[2 + kind] == NONE) continue;
            for (int64_t i = 0; i < lengths[place]; i++) {
                int64_t at = (2 * place + kind) * room + i;
                ends[kind] = search.link(ends[kind], spans[3 * at], spans[3 * at + 1], spans[3 * at + 2], values[at]);
            }
        }
        search.beam.push_back({node, own[0], own[1], {own[2], ends[0]}, {own[3], ends[1]}, own[4]});
    }
    for (int64_t frame = 0; frame < frames; frame++) search.advance(rows + frame * vocab, read + frame);
    count = search.beam.size();
    for (int64_t place = 0; place < count; place++) {
        const Prefix& prefix = search.beam[place];
        double own[5] = {prefix.blank, prefix.token, prefix.blank_path.score, prefix.token_path.score, prefix.bonus};
        std::copy(own, own + 5, sums + 5 * place);
        int64_t length = 0;
        for (int64_t node = prefix.node; node > 0; node = search.nodes[node].parent) length++;
        lengths[place] = length;
        int64_t i = length;
        for (int64_t node = prefix.node; node > 0; node = search.nodes[node].parent)
            tokens[place * room + --i] = search.nodes[node].token;
        int64_t ends[2] = {prefix.blank_path.link, prefix.token_path.link};
        for (int64_t kind = 0; kind < 2; kind++) {
            i = length;
            for (int64_t link = ends[kind]; link >= 0; link = search.links[link].before) {
                const Link& one = search.links[link];
                int64_t at = (2 * place + kind) * room + --i;
                int32_t span[3] = {one.first, one.last, one.peak};
                std::copy(span, span + 3, spans + 3 * at);
                values[at] = one.value;
            }
        }
    }
    greedy[0] = search.greedy;
    greedy[1] = search.label;
    return count;
}
}
