// Fades rank entries out, wave by wave, until the size is met.
#include "worker/trainer/late/size_controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

// The weight of the past in the saliency: about fifty steps count.
constexpr double kMemory = 0.98;
// The gradients to see before the first wave, unless the budget is short.
constexpr int64_t kFirstObservations = 20;
constexpr int64_t kLongestWave = 50;
// A wave takes about this share of the size.
constexpr double kWaveShare = 0.1;
// How far below the target the size may end for the sake of a better choice.
constexpr double kSlackShare = 0.005;
// Entries that are to stay are kept above the threshold by this factor.
constexpr float kFloorFactor = 1.5f;

int64_t ObservationsNeeded(const Approach& approach) {
  return std::min(kFirstObservations, approach.max_steps / 8);
}

int64_t Deadline(const Approach& approach) {
  return std::max<int64_t>(1, approach.max_steps / 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SizeController>> SizeController::Create(
    const Options& options, const std::vector<TensorisedLayer>& layers,
    const ParameterLayout& layout, SizeControl control,
    kernels::Backend* backend) {
  std::unique_ptr<SizeController> controller(
      new SizeController(options, std::move(control), backend));
  size_t next = 0;
  for (const TensorisedLayer& layer : layers) {
    Layer entry;
    entry.attention = layer.layer_class == "attention";
    entry.modes = layer.modes;
    for (int bond : layer.bonds) {
      entry.bonds.push_back({layout[bond].offset, layout[bond].size, next});
      next += static_cast<size_t>(layout[bond].size);
    }
    controller->layers_.push_back(std::move(entry));
  }
  controller->entry_count_ = next;
  SizeControl& state = controller->control_;
  if (state.saliency.empty() && state.fade.empty()) {
    state.saliency.resize(next);
    state.fade.resize(next);
  }
  if (state.saliency.size() != next || state.fade.size() != next) {
    return absl::InvalidArgumentError(
        absl::StrCat("late stage: ", state.saliency.size(), " and ",
                     state.fade.size(), " numbers for ", next, " entries"));
  }
  controller->entries_.resize(next);
  controller->gradients_.resize(next);
  return controller;
}

absl::Status SizeController::Read(kernels::ConstVector buffer,
                                  std::vector<float>* entries) {
  for (const Layer& layer : layers_) {
    for (const Bond& bond : layer.bonds) {
      if (bond.size == 0) continue;
      RETURN_IF_ERROR(backend_->CopyToHost(entries->data() + bond.first,
                                           buffer.data + bond.offset,
                                           bond.size * sizeof(float)));
    }
  }
  return absl::OkStatus();
}

absl::Status SizeController::Write(const std::vector<float>& entries,
                                   kernels::Vector parameters) {
  for (const Layer& layer : layers_) {
    for (const Bond& bond : layer.bonds) {
      if (bond.size == 0) continue;
      RETURN_IF_ERROR(backend_->CopyToDevice(parameters.data + bond.offset,
                                             entries.data() + bond.first,
                                             bond.size * sizeof(float)));
    }
  }
  return absl::OkStatus();
}

absl::Status SizeController::Observe(kernels::ConstVector parameters,
                                     kernels::ConstVector gradients,
                                     double scale) {
  RETURN_IF_ERROR(Read(parameters, &entries_));
  RETURN_IF_ERROR(Read(gradients, &gradients_));
  for (size_t i = 0; i < entry_count_; ++i) {
    // Before the first step, entries that are dead already stay so.
    if (entries_[i] <= options_.rank_threshold) {
      control_.fade[i] = SizeControl::kPruned;
    }
    const double change = scale * entries_[i] * gradients_[i];
    control_.saliency[i] = static_cast<float>(kMemory * control_.saliency[i] +
                                              (1 - kMemory) * change * change);
  }
  control_.weight = kMemory * control_.weight + (1 - kMemory);
  ++control_.observations;
  return absl::OkStatus();
}

bool SizeController::Due(const Approach& approach) const {
  if (!options_.scheduled || approach.size <= approach.target_size)
    return false;
  if (control_.observations < ObservationsNeeded(approach)) return false;
  // The size that a geometric descent to the deadline would have by now.
  const double done =
      std::min(1.0, static_cast<double>(approach.step + 1) /
                        static_cast<double>(Deadline(approach)));
  const double planned =
      control_.start_size *
      std::pow(std::max(1.0, approach.target_size) / control_.start_size, done);
  return approach.size > planned;
}

std::vector<PrunableLayer> SizeController::Candidates() const {
  std::vector<PrunableLayer> candidates;
  for (const Layer& layer : layers_) {
    PrunableLayer candidate;
    candidate.modes = layer.modes;
    if (layer.attention) candidate.floor = options_.attention_floor;
    for (const Bond& bond : layer.bonds) {
      std::vector<double> saliency;
      for (size_t i = bond.first; i < bond.first + bond.size; ++i) {
        saliency.push_back(control_.fade[i] == SizeControl::kPruned
                               ? -1.0
                               : control_.saliency[i]);
      }
      candidate.saliency.push_back(std::move(saliency));
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

void SizeController::BeginWave(const Approach& approach,
                               const std::vector<float>& entries) {
  // Without a schedule nothing but the rate limits a wave.
  const int64_t left =
      options_.scheduled ? Deadline(approach) - approach.step : kLongestWave;
  double rate = std::max(approach.rate, 1e-9);
  if (options_.scheduled) {
    rate = std::max(
        rate, std::log(approach.size / std::max(1.0, approach.target_size)) /
                  static_cast<double>(std::max<int64_t>(1, left)));
  }
  const int64_t steps =
      left <= 1 ? 1
                : std::clamp<int64_t>(std::llround(kWaveShare / rate), 1,
                                      std::min(kLongestWave, left));
  const double goal =
      left <= 1 ? approach.target_size
                : std::max(approach.target_size,
                           approach.size *
                               std::exp(-rate * static_cast<double>(steps)));
  const PruningChoice choice = ChooseEntries(Candidates(), options_.fixed_size,
                                             goal, kSlackShare * goal);
  for (const RankEntry& chosen : choice.entries) {
    const size_t i =
        layers_[chosen.layer].bonds[chosen.bond].first + chosen.entry;
    // The optimiser may just have lowered it beyond the threshold.
    control_.fade[i] = std::max(entries[i], options_.rank_threshold) /
                       static_cast<float>(steps);
  }
  control_.wave_steps_left = choice.entries.empty() ? 0 : steps;
}

void SizeController::LowerAll(double rate, std::vector<float>* entries) {
  const auto alive = [&](size_t i) {
    return (*entries)[i] > options_.rank_threshold;
  };
  for (const Layer& layer : layers_) {
    // The norms |d|_1 of the bonds between the outer ones, which are 1.
    std::vector<double> norms(layer.bonds.size() + 2, 1.0);
    for (size_t b = 0; b < layer.bonds.size(); ++b) {
      double sum = 0;
      for (int64_t k = 0; k < layer.bonds[b].size; ++k) {
        const size_t i = layer.bonds[b].first + static_cast<size_t>(k);
        if (alive(i)) sum += (*entries)[i];
      }
      norms[b + 1] = sum;
    }
    for (size_t b = 0; b < layer.bonds.size(); ++b) {
      const double slope =
          static_cast<double>(layer.modes[b]) * norms[b] +
          static_cast<double>(layer.modes[b + 1]) * norms[b + 2];
      const auto step =
          static_cast<float>(rate * options_.relaxed_weight * slope);
      for (int64_t k = 0; k < layer.bonds[b].size; ++k) {
        const size_t i = layer.bonds[b].first + static_cast<size_t>(k);
        if (!alive(i)) continue;
        (*entries)[i] -= step;
        if (!alive(i)) control_.fade[i] = SizeControl::kPruned;
      }
    }
  }
}

absl::Status SizeController::Step(bool on_size, const Approach& approach,
                                  kernels::Vector parameters) {
  RETURN_IF_ERROR(Read(parameters, &entries_));
  if (on_size && control_.wave_steps_left == 0 &&
      approach.size > approach.target_size &&
      control_.observations >= ObservationsNeeded(approach)) {
    BeginWave(approach, entries_);
  }
  if (options_.relaxed_weight > 0) LowerAll(approach.rate, &entries_);
  const bool lower = on_size && control_.wave_steps_left > 0;
  if (lower) --control_.wave_steps_left;
  const float floor = kFloorFactor * options_.rank_threshold;
  for (size_t i = 0; i < entry_count_; ++i) {
    float& entry = entries_[i];
    float& fade = control_.fade[i];
    if (fade > 0 && lower) {
      entry -= fade;
      if (control_.wave_steps_left == 0 || entry <= options_.rank_threshold) {
        fade = SizeControl::kPruned;
      }
    }
    if (fade == SizeControl::kPruned) {
      entry = 0;
    } else {
      entry = std::max(entry, floor);
    }
  }
  return Write(entries_, parameters);
}

absl::StatusOr<SizeControl> SizeController::Compacted(
    kernels::ConstVector parameters) {
  RETURN_IF_ERROR(Read(parameters, &entries_));
  SizeControl kept = control_;
  kept.saliency.clear();
  kept.fade.clear();
  for (const Layer& layer : layers_) {
    bool gone = false;
    for (const Bond& bond : layer.bonds) {
      const auto first = entries_.begin() + static_cast<int64_t>(bond.first);
      gone |= std::none_of(first, first + bond.size, [&](float entry) {
        return entry > options_.rank_threshold;
      });
    }
    if (gone) continue;
    for (const Bond& bond : layer.bonds) {
      for (size_t i = bond.first; i < bond.first + bond.size; ++i) {
        if (entries_[i] <= options_.rank_threshold) continue;
        kept.saliency.push_back(control_.saliency[i]);
        kept.fade.push_back(control_.fade[i]);
      }
    }
  }
  return kept;
}

}  // namespace comera::trainer
