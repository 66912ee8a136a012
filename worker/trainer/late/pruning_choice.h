#ifndef COMERA_WORKER_TRAINER_LATE_PRUNING_CHOICE_H_
#define COMERA_WORKER_TRAINER_LATE_PRUNING_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace comera::trainer {

// The parts of a tensor-train layer that pruning needs.
struct PrunableLayer {
  // Factors of the cores in the size formula (REFERENCE.md, "Size").
  std::vector<int64_t> modes;
  // saliency[b][k]: what losing entry k of inner bond b would cost, >= 0;
  // negative: it is not alive. One bond fewer than modes.
  std::vector<std::vector<double>> saliency = {};
  // Entries that a bond keeps while there are others to prune; at least 1.
  int64_t floor = 1;
};

struct RankEntry {
  size_t layer = 0;
  size_t bond = 0;
  size_t entry = 0;
};

struct PruningChoice {
  std::vector<RankEntry> entries;
  // The size of the model without them.
  double size = 0;
};

// The number of parameters at the alive entries: fixed_size, and the sum of
// n_i r_{i-1} r_i over every layer with no bond at rank 0.
double SizeOf(const std::vector<PrunableLayer>& layers, double fixed_size);

// Chooses the entries to prune so that the size comes to `goal`: not above it,
// and below it by at most `slack` if any choice allows that. The choice is
// greedy: again and again the entry that costs least per parameter that leaves
// with it, since what an entry frees depends on the ranks beside it. Entries
// that turn out to fit after all stay. Bonds go below their layer's floor only
// where all others are at theirs, and the last entry of a bond, and with it its
// layer, goes only where nothing else is left. A goal below fixed_size takes
// all but those.
PruningChoice ChooseEntries(const std::vector<PrunableLayer>& layers,
                            double fixed_size, double goal, double slack);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LATE_PRUNING_CHOICE_H_
