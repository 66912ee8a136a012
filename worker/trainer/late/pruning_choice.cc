// Chooses the rank entries to prune for a size, greedily.
#include "worker/trainer/late/pruning_choice.h"

#include <algorithm>
#include <limits>

namespace comera::trainer {
namespace {

// The entries of one layer that are left while others are chosen.
class Remaining {
 public:
  explicit Remaining(const PrunableLayer& layer)
      : floor_(static_cast<double>(layer.floor)), modes_(layer.modes) {
    for (const std::vector<double>& saliency : layer.saliency) {
      std::vector<size_t> order;
      for (size_t k = 0; k < saliency.size(); ++k) {
        if (saliency[k] >= 0) order.push_back(k);
      }
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return saliency[a] < saliency[b];
      });
      counts_.push_back(static_cast<double>(order.size()));
      orders_.push_back(std::move(order));
      next_.push_back(0);
    }
  }

  size_t bonds() const { return counts_.size(); }
  double count(size_t bond) const { return counts_[bond]; }
  double floor() const { return floor_; }
  // The least salient entry left in the bond, which has one.
  size_t Least(size_t bond) const { return orders_[bond][next_[bond]]; }

  double Size() const {
    double size = 0;
    for (size_t i = 0; i < modes_.size(); ++i) {
      const double left = i == 0 ? 1 : counts_[i - 1];
      const double right = i + 1 == modes_.size() ? 1 : counts_[i];
      if (left == 0 || right == 0) return 0;
      size += static_cast<double>(modes_[i]) * left * right;
    }
    return size;
  }
  // How much the layer would shrink if the bond changed by this many.
  double Freed(size_t bond, double change) {
    const double before = Size();
    counts_[bond] += change;
    const double after = Size();
    counts_[bond] -= change;
    return before - after;
  }
  void Remove(size_t bond) { ++next_[bond], --counts_[bond]; }
  void PutBack(size_t bond) { --next_[bond], ++counts_[bond]; }

 private:
  const double floor_;
  const std::vector<int64_t> modes_;
  std::vector<double> counts_;
  std::vector<std::vector<size_t>> orders_;  // by ascending saliency
  std::vector<size_t> next_;                 // into orders_
};

class Chooser {
 public:
  Chooser(const std::vector<PrunableLayer>& layers, double fixed_size)
      : layers_(layers), size_(fixed_size) {
    for (const PrunableLayer& layer : layers) {
      remaining_.emplace_back(layer);
      size_ += remaining_.back().Size();
    }
  }

  double size() const { return size_; }

  enum class Keep { kFloor, kOne, kNothing };

  // Prunes the entry that costs least of bonds with more entries than are to
  // be kept. False: there is none.
  bool PruneOne(double goal, double slack, Keep keep) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    // Entries that stay within the slack go first, by their cost per parameter;
    // without any, the one that passes it by least.
    double best_cost = kNone, best_freed = kNone;
    RankEntry best;
    for (size_t l = 0; l < remaining_.size(); ++l) {
      Remaining& layer = remaining_[l];
      for (size_t b = 0; b < layer.bonds(); ++b) {
        const double kept = keep == Keep::kFloor ? layer.floor()
                            : keep == Keep::kOne ? 1
                                                 : 0;
        if (layer.count(b) <= kept) continue;
        const double freed = layer.Freed(b, -1);
        if (freed <= 0) continue;
        const size_t k = layer.Least(b);
        const double cost = layers_[l].saliency[b][k] / freed;
        const bool fits = size_ - freed >= goal - slack;
        const bool better =
            fits ? cost < best_cost : best_cost == kNone && freed < best_freed;
        if (!better) continue;
        best = {l, b, k};
        best_freed = freed;
        best_cost = fits ? cost : kNone;
      }
    }
    if (best_freed == kNone) return false;
    remaining_[best.layer].Remove(best.bond);
    size_ -= best_freed;
    pruned_.push_back(best);
    return true;
  }

  // Puts back whatever fits below the goal after all, the dearest first.
  PruningChoice Finish(double goal) {
    PruningChoice choice;
    for (size_t i = pruned_.size(); i-- > 0;) {
      const RankEntry& entry = pruned_[i];
      Remaining& layer = remaining_[entry.layer];
      const double more = -layer.Freed(entry.bond, 1);
      // In each bond the entries come back in the order opposite to that in
      // which they went, or not at all.
      if (size_ + more <= goal && layer.count(entry.bond) > 0 && IsNewest(i)) {
        layer.PutBack(entry.bond);
        size_ += more;
        pruned_.erase(pruned_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    choice.entries = pruned_;
    choice.size = size_;
    return choice;
  }

 private:
  // True if no entry of the same bond was pruned after the i-th and is still
  // out.
  bool IsNewest(size_t i) const {
    for (size_t j = i + 1; j < pruned_.size(); ++j) {
      if (pruned_[j].layer == pruned_[i].layer &&
          pruned_[j].bond == pruned_[i].bond) {
        return false;
      }
    }
    return true;
  }

  const std::vector<PrunableLayer>& layers_;
  std::vector<Remaining> remaining_;
  double size_;
  std::vector<RankEntry> pruned_;
};

}  // namespace

double SizeOf(const std::vector<PrunableLayer>& layers, double fixed_size) {
  return Chooser(layers, fixed_size).size();
}

PruningChoice ChooseEntries(const std::vector<PrunableLayer>& layers,
                            double fixed_size, double goal, double slack) {
  Chooser chooser(layers, fixed_size);
  for (const Chooser::Keep keep :
       {Chooser::Keep::kFloor, Chooser::Keep::kOne, Chooser::Keep::kNothing}) {
    // A goal that is out of reach is no reason to lose whole layers.
    if (keep == Chooser::Keep::kNothing && goal < fixed_size) break;
    while (chooser.size() > goal && chooser.PruneOne(goal, slack, keep)) {
    }
  }
  return chooser.Finish(goal);
}

}  // namespace comera::trainer
