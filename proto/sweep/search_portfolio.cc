// Chooses the candidates of a search by what sizes methods and widths can have.

#include "proto/sweep/search_portfolio.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "proto/model_family.h"
#include "proto/model_size.h"
#include "proto/sweep/search_candidate.h"
#include "proto/sweep/search_target.h"

namespace comera {
namespace {

using Method = v1::CompressionSpec;
using Candidate = SearchCandidate;

constexpr int64_t kLeastWidth = 8;
// The learning rate of methods that keep their size: small models learn best at
// several times the default (docs/outcomes.md).
constexpr double kRate = 3e-3;
// The learning rate of their matrices under Muon.
constexpr double kMuonRate = 2e-2;
// What the default rate of tensor-train cores is multiplied by in a second try:
// no one rate is the best at all ranks (docs/optimizer.md).
constexpr double kSecondCoreRate = 2;
// Tensor-train language models that predict the next token with a tied output
// have one dense row for every kVocabularyPerDenseToken tokens of the
// vocabulary; with a target size, the rows take at most 1 / kSizePerDenseRows
// of it (docs/language_models.md).
constexpr int64_t kVocabularyPerDenseToken = 16;
constexpr int64_t kSizePerDenseRows = 4;
constexpr int64_t kLeastDenseTokens = 16;
// Language models of tensor trains learn to copy from the context sooner
// with dense attention and dense rows for the most frequent tokens
// (docs/outcomes.md). Each of the two takes up to kDenseShare of the target
// size, and no more than kCopyingRows of the tokens have rows; all that is
// dense takes at most kMostDenseShare.
constexpr double kDenseShare = 0.3;
constexpr double kCopyingRows = 3.0 / 16;
constexpr int64_t kCopyingRank = 32;  // at the job's width
constexpr double kMostDenseShare = 0.75;
// How often the job's width is halved at most, so that dense attention fits.
constexpr int kMostHalvings = 2;

// Chooses candidates for one job.
class Portfolio {
 public:
  // `job` is without defaults, so that each candidate's are its own;
  // `own_rates`: the job file names an optimiser or learning rates.
  Portfolio(const v1::JobSpec& job, std::vector<Method::Method> methods,
            bool own_rates)
      : job_(job),
        target_(SearchTargetOf(job.objective().late())),
        methods_(std::move(methods)),
        own_rates_(own_rates) {}

  std::vector<Candidate> Choose() const {
    if (job_.model().family() == v1::ModelSpec::DLRM) return ChooseClicks();
    // Each method's candidates, the best first; then taken in turn.
    std::vector<std::vector<Candidate>> lists;
    if (Has(Method::COMERA)) lists.push_back(Comera());
    if (Has(Method::DENSE)) lists.push_back(Dense());
    if (Has(Method::COLA)) lists.push_back(Cola());
    // The others keep a dense model's size: what they save is memory.
    for (Method::Method method : {Method::GALORE, Method::LORA, Method::LTE}) {
      if (!Has(method)) continue;
      Candidate candidate;
      candidate.method = method;
      candidate.width = Width();
      lists.push_back({candidate});
    }
    std::vector<Candidate> all;
    for (size_t i = 0; all.size() < 4 * kMaxCandidates; ++i) {
      const size_t before = all.size();
      for (const std::vector<Candidate>& list : lists) {
        if (i < list.size()) all.push_back(list[i]);
      }
      if (all.size() == before) break;
    }
    return all;
  }

  // Whether the candidate may become small enough.
  bool Fits(const Candidate& candidate) const {
    if (target_.parameters == 0) return true;
    return SmallestModelParameters(SizedJob(candidate, job_)) <=
           static_cast<double>(target_.parameters);
  }

 private:
  bool Has(Method::Method method) const {
    return std::find(methods_.begin(), methods_.end(), method) !=
           methods_.end();
  }
  int64_t Width() const { return job_.model().hidden(); }
  bool IsLm() const { return IsLanguageModel(job_.model()); }

  std::vector<Candidate> ChooseClicks() const {
    std::vector<Candidate> all;
    for (int64_t rank : {16, 8, 32}) {
      if (Has(Method::COMERA)) AddComera(0, rank, false, &all);
    }
    Candidate dense;
    if (Has(Method::DENSE)) all.push_back(dense);
    return all;
  }

  // The dense tokens of a tensor-train candidate.
  int64_t DenseTokens(int64_t width, bool tied) const {
    if (job_.model().family() != v1::ModelSpec::CAUSAL_LM || width < 1 ||
        !(tied || TiesOutput(job_.model())) || !LeavesDenseTokens(job_)) {
      return 0;
    }
    int64_t tokens = job_.data().tokenizer().train_vocabulary_size() /
                     kVocabularyPerDenseToken;
    if (target_.parameters > 0) {
      tokens = std::min(tokens, target_.parameters / kSizePerDenseRows / width);
    }
    return tokens < kLeastDenseTokens ? 0 : tokens;
  }

  void AddComera(int64_t width, int64_t rank, bool tied,
                 std::vector<Candidate>* all) const {
    Candidate candidate;
    candidate.method = Method::COMERA;
    candidate.width = width;
    candidate.rank = rank;
    candidate.tied = tied;
    candidate.dense_tokens = DenseTokens(width, tied);
    if (target_.parameters > 0) {
      all->push_back(candidate);
      return;
    }
    for (double ratio : kShrinkRatios) {
      candidate.ratio = ratio;
      all->push_back(candidate);
    }
  }

  // A candidate with dense attention, of so many columns.
  Candidate Copying(int64_t width) const {
    Candidate candidate;
    candidate.method = Method::COMERA;
    candidate.width = width;
    candidate.rank = std::max<int64_t>(1, kCopyingRank * width / Width());
    candidate.tied = true;
    candidate.dense_attention = true;
    candidate.dense_tokens = static_cast<int64_t>(std::min(
        kCopyingRows * static_cast<double>(
                           job_.data().tokenizer().train_vocabulary_size()),
        kDenseShare * static_cast<double>(target_.parameters) /
            static_cast<double>(width)));
    return candidate;
  }

  // Adds the widest candidate with dense attention that may be small enough, if
  // one means something.
  void AddCopying(std::vector<Candidate>* all) const {
    if (!IsLm() || !LeavesDenseTokens(job_) || !LeavesAttention(job_)) return;
    const auto target = static_cast<double>(target_.parameters);
    int64_t width = Width();
    for (int i = 0; i <= kMostHalvings && width >= kLeastWidth;
         ++i, width /= 2) {
      // Query, key, value and output of each layer.
      const double attention = 4.0 * static_cast<double>(width) *
                               static_cast<double>(width) *
                               job_.model().layers();
      const Candidate candidate = Copying(width);
      if (attention <= kDenseShare * target &&
          candidate.dense_tokens >= kLeastDenseTokens &&
          SmallestModelParameters(SizedJob(candidate, job_)) <=
              kMostDenseShare * target) {
        all->push_back(candidate);
        return;
      }
    }
  }

  std::vector<Candidate> Comera() const {
    std::vector<Candidate> all;
    // Language models learn better with a tied output at equal sizes.
    const bool ties = HasOutputLayer(job_.model());
    AddComera(Width(), 16, ties, &all);
    AddCopying(&all);
    AddComera(Width(), 32, ties, &all);
    if (ties) AddComera(Width(), 16, false, &all);
    AddComera(Width() / 2, 16, ties, &all);
    AddComera(Width(), 8, ties, &all);
    if (own_rates_ || !IsLm()) return all;
    // Language models differ in the rate that they take.
    Candidate faster = all.front();
    const v1::OptimizerSpec usual = UsualOptimizer(Method::COMERA, job_);
    faster.rates = {usual.kind(), kSecondCoreRate * usual.learning_rate_cores(),
                    usual.learning_rate_other()};
    all.insert(all.begin() + 1, faster);
    return all;
  }

  // Widest multiple of 8 whose model fits; 0: none does.
  int64_t WidestFit(Candidate candidate, bool quarter_rank) const {
    int64_t widest = 0;
    for (int64_t w = kLeastWidth; w <= Width(); w += kLeastWidth) {
      candidate.width = w;
      if (quarter_rank) candidate.rank = std::max<int64_t>(1, w / 4);
      if (Fits(candidate)) widest = w;
    }
    return widest;
  }

  // Widths of a method that keeps its size, the best guess first.
  std::vector<int64_t> Widths(const Candidate& candidate, bool quarter) const {
    std::vector<int64_t> widths;
    const auto add = [&](int64_t width) {
      width = width / kLeastWidth * kLeastWidth;
      if (width >= kLeastWidth &&
          std::find(widths.begin(), widths.end(), width) == widths.end()) {
        widths.push_back(width);
      }
    };
    if (target_.parameters > 0) {
      const int64_t widest = WidestFit(candidate, quarter);
      add(widest);
      // Smaller ones only win where a quality is asked for.
      if (target_.has_quality) {
        add(widest * 3 / 4);
        add(widest / 2);
      }
      return widths;
    }
    for (int64_t part : {4, 2, 8, 1}) add(Width() / part);
    return widths;
  }

  std::vector<Candidate> Dense() const {
    std::vector<Candidate> all;
    for (bool tied : {false, true}) {
      if (tied && !HasOutputLayer(job_.model())) continue;
      Candidate candidate;
      candidate.tied = tied;
      if (!own_rates_) {
        candidate.rates = {v1::OptimizerSpec::ADAMW, kRate, kRate};
      }
      for (int64_t width : Widths(candidate, false)) {
        candidate.width = width;
        all.push_back(candidate);
      }
    }
    // Plain and tied in turn.
    std::stable_sort(all.begin(), all.end(),
                     [&](const Candidate& a, const Candidate& b) {
                       return Place(all, a) < Place(all, b);
                     });
    if (all.empty() || own_rates_) return all;
    // The first once more by Muon, under which narrow language models learn
    // best with a tied output (docs/outcomes.md).
    const auto first =
        std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) {
          return candidate.tied || !HasOutputLayer(job_.model());
        });
    Candidate muon = first == all.end() ? all.front() : *first;
    muon.rates = {v1::OptimizerSpec::MUON, kMuonRate, kRate};
    all.insert(all.begin() + std::min<size_t>(2, all.size()), muon);
    return all;
  }

  // A candidate's place among those with the same output.
  static int Place(const std::vector<Candidate>& all, const Candidate& one) {
    int place = 0;
    for (const Candidate& other : all) {
      if (other.tied != one.tied) continue;
      if (other.width == one.width) break;
      ++place;
    }
    return place;
  }

  std::vector<Candidate> Cola() const {
    std::vector<Candidate> all;
    Candidate candidate;
    candidate.method = Method::COLA;
    if (!own_rates_) {
      candidate.rates = {v1::OptimizerSpec::ADAMW, kRate, kRate};
    }
    for (int64_t width : Widths(candidate, true)) {
      candidate.width = width;
      candidate.rank = std::max<int64_t>(1, width / 4);
      all.push_back(candidate);
    }
    return all;
  }

  const v1::JobSpec& job_;
  const SearchTarget target_;
  const std::vector<Method::Method> methods_;
  const bool own_rates_;
};

std::vector<Method::Method> MethodsOf(const v1::SweepSpec& spec) {
  std::vector<Method::Method> methods;
  for (int method : spec.search().methods()) {
    methods.push_back(static_cast<Method::Method>(method));
  }
  if (methods.empty()) {
    methods = {Method::COMERA, Method::DENSE, Method::COLA};
  }
  return methods;
}

}  // namespace

std::vector<v1::SweepPoint> SearchPortfolio(
    const v1::SweepSpec& spec, const std::vector<FinishedRun>& history,
    int* from_history) {
  const std::vector<Method::Method> methods = MethodsOf(spec);
  v1::JobSpec job = spec.job();
  job.mutable_compression()->set_method(Method::DENSE);
  const v1::OptimizerSpec& optimizer = spec.job().optimizer();
  const bool own_rates =
      optimizer.has_learning_rate_cores() ||
      optimizer.has_learning_rate_other() ||
      optimizer.kind() != v1::OptimizerSpec::KIND_UNSPECIFIED;
  const Portfolio portfolio(job, methods, own_rates);
  const size_t limit = static_cast<size_t>(spec.search().candidates() > 0
                                               ? spec.search().candidates()
                                               : kDefaultCandidates);
  std::vector<v1::SweepPoint> points;
  std::set<std::string> seen;
  const auto add = [&](const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) {
      if (points.size() == limit) return;
      if (!portfolio.Fits(candidate)) continue;
      v1::SweepPoint point = ToPoint(candidate, spec.job());
      if (!seen.insert(point.label()).second) continue;
      points.push_back(std::move(point));
    }
  };
  if (!spec.search().has_use_history() || spec.search().use_history()) {
    add(LearnedCandidates(spec.job(), own_rates, methods, history));
  }
  if (from_history != nullptr) *from_history = static_cast<int>(points.size());
  add(portfolio.Choose());
  return points;
}

}  // namespace comera
