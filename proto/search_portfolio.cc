// Chooses the candidates of a search by what sizes methods and widths can have.

#include "proto/search_portfolio.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/job_defaults.h"
#include "proto/model_family.h"
#include "proto/model_size.h"
#include "proto/search_target.h"

namespace comera {
namespace {

using Method = v1::CompressionSpec;

// Narrower heads attend to nothing useful.
constexpr int64_t kLeastHeadWidth = 8;
constexpr int64_t kLeastWidth = 8;
// A loss that no model reaches, so that the late stage uses all its steps.
constexpr double kUnreachableLoss = 1e-6;
// The steps of runs that a budget in time will stop.
constexpr int64_t kUnlimitedSteps = 1'000'000;
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
constexpr int kMaxFromHistory = 4;
constexpr int64_t kMaxSteps = 1'000'000'000;
// Shares of its early size at which a rank-adaptive model is tried where the
// job names no size.
constexpr double kRatios[] = {0.5, 0.25};

// An optimiser and its learning rates; KIND_UNSPECIFIED: the defaults of both.
struct Rates {
  v1::OptimizerSpec::Kind kind = v1::OptimizerSpec::KIND_UNSPECIFIED;
  double cores = 0;
  double other = 0;
  // learning_rate_tables; 0: its default.
  double tables = 0;

  bool are_defaults() const {
    return kind == v1::OptimizerSpec::KIND_UNSPECIFIED;
  }
};

// A candidate in the words of a portfolio.
struct Candidate {
  Method::Method method = Method::DENSE;
  // Width of the residual stream; 0: the job's.
  int64_t width = 0;
  int64_t rank = 0;
  double ratio = 0;
  bool tied = false;
  // The field of compression.embedding; 0: the job's own value.
  int64_t dense_tokens = 0;
  Rates rates;
};

// How often in a row `parallel` jobs must run until `live` of them had a turn.
int TurnsOf(int live, int parallel) {
  parallel = std::max(1, parallel);
  return (live + parallel - 1) / parallel;
}

int HeadsFor(int64_t width, const v1::ModelSpec& model) {
  // The entries of a LLaMA's head are turned in pairs.
  const int64_t unit = IsLlama(model) ? 2 : 1;
  for (int h = std::max(1, model.heads()); h > 1; --h) {
    if (width % (h * unit) == 0 && width / h >= kLeastHeadWidth) return h;
  }
  return 1;
}

// The most heads of keys and values, but no more than the job's, that `heads`
// share evenly.
int KvHeadsFor(int heads, int kv_heads) {
  for (int h = std::min(heads, kv_heads); h > 1; --h) {
    if (heads % h == 0) return h;
  }
  return 1;
}

// Makes the model as wide, in the proportions of the job's; fields that the job
// leaves out stay so.
void SetWidth(int64_t width, v1::ModelSpec* model) {
  const int64_t before = std::max<int64_t>(1, model->hidden());
  const int heads = HeadsFor(width, *model);
  model->set_hidden(width);
  model->set_heads(heads);
  if (model->kv_heads() > 0) {
    model->set_kv_heads(KvHeadsFor(heads, model->kv_heads()));
  }
  if (model->ffn() > 0) {
    model->set_ffn(std::max<int64_t>(1, model->ffn() * width / before));
  }
}

void AddField(const std::string& path, const std::string& value,
              v1::SweepPoint* point) {
  v1::FieldValue* field = point->add_fields();
  field->set_path(path);
  field->set_value(value);
}

v1::SweepPoint ToPoint(const Candidate& candidate, const v1::JobSpec& job) {
  v1::SweepPoint point;
  const v1::ModelSpec& model = job.model();
  point.set_method(candidate.method);
  const bool has_width = model.family() != v1::ModelSpec::DLRM;
  const int64_t width = candidate.width > 0 ? candidate.width : model.hidden();
  std::string label = absl::StrCat(
      "method=", absl::AsciiStrToLower(Method::Method_Name(candidate.method)));
  if (has_width) absl::StrAppend(&label, " width=", width);
  if (has_width && width != model.hidden()) {
    v1::ModelSpec sized = model;
    SetWidth(width, &sized);
    AddField("model.hidden", absl::StrCat(width), &point);
    AddField("model.heads", absl::StrCat(sized.heads()), &point);
    if (sized.kv_heads() > 0) {
      AddField("model.kv_heads", absl::StrCat(sized.kv_heads()), &point);
    }
    if (sized.ffn() > 0) {
      AddField("model.ffn", absl::StrCat(sized.ffn()), &point);
    }
  }
  if (candidate.rank > 0) {
    point.set_ranks(candidate.rank);
    absl::StrAppend(&label, " rank=", candidate.rank);
  }
  if (candidate.tied && !TiesOutput(model)) {
    AddField("model.tie_output", "true", &point);
    absl::StrAppend(&label, " output=tied");
  }
  if (candidate.dense_tokens > 0) {
    AddField("compression.embedding.dense_tokens",
             absl::StrCat(candidate.dense_tokens), &point);
    absl::StrAppend(&label, " dense_tokens=", candidate.dense_tokens);
  }
  const Rates& rates = candidate.rates;
  if (!rates.are_defaults()) {
    AddField("optimizer.kind", v1::OptimizerSpec::Kind_Name(rates.kind),
             &point);
    AddField("optimizer.learning_rate_cores", absl::StrCat(rates.cores),
             &point);
    AddField("optimizer.learning_rate_other", absl::StrCat(rates.other),
             &point);
    if (rates.tables > 0) {
      AddField("optimizer.learning_rate_tables", absl::StrCat(rates.tables),
               &point);
    }
    const bool comera = candidate.method == Method::COMERA;
    const bool muon = rates.kind == v1::OptimizerSpec::MUON;
    if (comera != muon) {
      absl::StrAppend(&label, " optimizer=", muon ? "muon" : "adamw");
    }
    absl::StrAppend(&label,
                    " rate=", comera || muon ? rates.cores : rates.other);
  }
  if (candidate.ratio > 0) {
    point.mutable_target()->set_target_ratio(candidate.ratio);
    absl::StrAppend(&label, " shrunk_to=", candidate.ratio);
  }
  point.set_label(std::move(label));
  return point;
}

// The candidate's job as far as its size goes; `job` is without defaults.
v1::JobSpec SizedJob(const Candidate& candidate, const v1::JobSpec& job) {
  v1::JobSpec spec = job;
  v1::ModelSpec& model = *spec.mutable_model();
  if (candidate.width > 0 && candidate.width != model.hidden()) {
    SetWidth(candidate.width, &model);
  }
  if (candidate.tied) model.set_tie_output(true);
  if (candidate.dense_tokens > 0) {
    spec.mutable_compression()->mutable_embedding()->set_dense_tokens(
        candidate.dense_tokens);
  }
  spec.mutable_compression()->set_method(candidate.method);
  if (candidate.method == Method::COLA && candidate.rank > 0) {
    spec.mutable_compression()->mutable_cola()->set_rank(candidate.rank);
  }
  return WithDefaults(std::move(spec));
}

// The optimiser of a job of this method that names neither kind nor rates.
v1::OptimizerSpec UsualOptimizer(Method::Method method, v1::JobSpec job) {
  job.clear_optimizer();
  job.mutable_compression()->set_method(method);
  return WithDefaults(std::move(job)).optimizer();
}

// Whether the job leaves it to the search which tokens have dense rows.
bool LeavesDenseTokens(const v1::JobSpec& job) {
  const v1::LayerCompression& embedding = job.compression().embedding();
  return !embedding.dense() && !embedding.has_dense_tokens();
}

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
    for (double ratio : kRatios) {
      candidate.ratio = ratio;
      all->push_back(candidate);
    }
  }

  std::vector<Candidate> Comera() const {
    std::vector<Candidate> all;
    // Language models learn better with a tied output at equal sizes.
    const bool ties = HasOutputLayer(job_.model());
    AddComera(Width(), 16, ties, &all);
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
    // Plain and tied in turn, and the first once more by Muon.
    std::stable_sort(all.begin(), all.end(),
                     [&](const Candidate& a, const Candidate& b) {
                       return Place(all, a) < Place(all, b);
                     });
    if (!all.empty() && !own_rates_) {
      Candidate muon = all.front();
      muon.rates = {v1::OptimizerSpec::MUON, kMuonRate, kRate};
      all.insert(all.begin() + std::min<size_t>(2, all.size()), muon);
    }
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

int64_t RankOf(const v1::JobSpec& spec) {
  const v1::CompressionSpec& c = spec.compression();
  switch (c.method()) {
    case Method::COMERA: {
      const v1::LayerCompression& layer =
          spec.model().family() == v1::ModelSpec::DLRM ? c.table()
                                                       : c.attention();
      return layer.ranks_size() == 1 ? layer.ranks(0) : 0;
    }
    case Method::COLA:
      return c.cola().rank();
    default:
      return 0;
  }
}

// The rates of a finished job.
Rates RatesOf(const v1::JobSpec& spec) {
  const Method::Method method = spec.compression().method();
  const v1::OptimizerSpec ran = WithDefaults(spec).optimizer();
  const v1::OptimizerSpec usual = UsualOptimizer(method, spec);
  const bool has_cores =
      method == Method::COMERA || ran.kind() == v1::OptimizerSpec::MUON;
  if (ran.kind() == usual.kind() &&
      ran.learning_rate_other() == usual.learning_rate_other() &&
      ran.learning_rate_tables() == usual.learning_rate_tables() &&
      (!has_cores ||
       ran.learning_rate_cores() == usual.learning_rate_cores())) {
    return {};
  }
  return {ran.kind(), ran.learning_rate_cores(), ran.learning_rate_other(),
          ran.learning_rate_tables()};
}

// The configurations on the front of the finished jobs, the one nearest to the
// targets first. `own_rates`: the search names an optimiser or learning rates,
// which then stand.
std::vector<Candidate> Learned(const v1::JobSpec& job, bool own_rates,
                               const std::vector<Method::Method>& methods,
                               const std::vector<FinishedRun>& history) {
  const SearchTarget target = SearchTargetOf(job.objective().late());
  std::vector<const FinishedRun*> front;
  for (const FinishedRun& run : history) {
    if (run.size_parameters <= 0 || !(run.validation_loss > 0)) continue;
    if (!target.MeetsSize(run.size_parameters)) continue;
    if (std::find(methods.begin(), methods.end(),
                  run.spec.compression().method()) == methods.end()) {
      continue;
    }
    const bool beaten = std::any_of(
        history.begin(), history.end(), [&](const FinishedRun& other) {
          return other.size_parameters > 0 && other.validation_loss > 0 &&
                 other.size_parameters <= run.size_parameters &&
                 other.validation_loss <= run.validation_loss &&
                 (other.size_parameters < run.size_parameters ||
                  other.validation_loss < run.validation_loss);
        });
    if (!beaten) front.push_back(&run);
  }
  const bool by_loss =
      target.has_quality && target.metric == v1::LateStage::kTargetLoss;
  std::stable_sort(
      front.begin(), front.end(),
      [&](const FinishedRun* a, const FinishedRun* b) {
        const double a_gap =
            by_loss ? target.Shortfall(a->validation_loss) : a->validation_loss;
        const double b_gap =
            by_loss ? target.Shortfall(b->validation_loss) : b->validation_loss;
        if (a_gap != b_gap) return a_gap < b_gap;
        return a->size_parameters < b->size_parameters;
      });
  std::vector<Candidate> learned;
  for (const FinishedRun* run : front) {
    if (learned.size() == kMaxFromHistory) break;
    Candidate candidate;
    candidate.method = run->spec.compression().method();
    candidate.width = run->spec.model().hidden();
    candidate.rank = RankOf(run->spec);
    candidate.tied = run->spec.model().tie_output();
    if (candidate.method == Method::COMERA && LeavesDenseTokens(job)) {
      candidate.dense_tokens =
          run->spec.compression().embedding().dense_tokens();
    }
    if (!own_rates) candidate.rates = RatesOf(run->spec);
    if (candidate.method == Method::COMERA && target.parameters == 0) {
      candidate.ratio = kRatios[0];
    }
    learned.push_back(candidate);
  }
  return learned;
}

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

bool IsSearch(const v1::JobSpec& job) {
  return job.compression().method() == v1::CompressionSpec::AUTO;
}

void CheckSearch(const v1::SweepSpec& spec, SpecChecker& check) {
  const v1::JobSpec& job = spec.job();
  check.Require(!spec.has_grid(), "grid",
                "excludes compression.method AUTO, which chooses the runs; its "
                "candidates can be given as a list");
  check.Require(!spec.has_random(), "random",
                "excludes compression.method AUTO, which chooses the runs");
  check.Require(!spec.has_halving(), "halving",
                "excludes compression.method AUTO, which stops runs itself");
  check.Require(!spec.stop_dominated(), "stop_dominated",
                "excludes compression.method AUTO, which stops runs by rules "
                "of its own");
  if (spec.search().candidates() != 0) {
    check.Range("search.candidates", spec.search().candidates(), 2,
                kMaxCandidates);
  }
  for (int i = 0; i < spec.search().methods_size(); ++i) {
    const auto method = spec.search().methods(i);
    check.Require(method != v1::CompressionSpec::AUTO &&
                      method != v1::CompressionSpec::METHOD_UNSPECIFIED,
                  absl::StrCat("search.methods[", i, "]"),
                  "is no method that can be tried");
  }
  const v1::Budget& budget = job.budget();
  switch (budget.limit_case()) {
    case v1::Budget::kTime:
      check.Require(budget.time().seconds() > 0, "job.budget.time",
                    "must be at least a second");
      break;
    case v1::Budget::kProcessorTime:
      check.Require(budget.processor_time().seconds() > 0,
                    "job.budget.processor_time", "must be at least a second");
      break;
    case v1::Budget::kSteps:
      check.Range("job.budget.steps", budget.steps(), 1, kMaxSteps);
      break;
    case v1::Budget::LIMIT_NOT_SET:
      check.Add("job.budget",
                "is missing: time, steps or processor_time, what the search "
                "may spend");
      break;
  }
  // The candidates' widths and steps are counted out before any of their jobs
  // is validated.
  const v1::ModelSpec& model = job.model();
  check.Range("job.model.layers", model.layers(), 0, 1000);
  check.Range("job.model.hidden", model.hidden(), 0, 65536);
  check.Range("job.model.ffn", model.ffn(), 0, 1 << 20);
  check.Range("job.model.heads", model.heads(), 0, 1024);
  check.Require(job.training().max_tokens() == 0, "job.training.max_tokens",
                "excludes compression.method AUTO: job.budget says what the "
                "search may spend");
  check.Range("job.objective.early.steps", job.objective().early().steps(), 0,
              kMaxSteps);
  check.Range("job.objective.late.max_steps",
              job.objective().late().max_steps(), 0, kMaxSteps);
  const v1::LateStage& late = job.objective().late();
  check.Require(late.targets().empty(), "job.objective.late.targets",
                "excludes compression.method AUTO: a search has one target");
  check.Require(!late.has_target_ratio(), "job.objective.late.target_ratio",
                "is a share of one model's size, and a search compares models "
                "of different sizes: give target_parameters or target_bytes");
  const SearchTarget target = SearchTargetOf(late);
  check.Require(
      target.has_quality || target.parameters > 0 || late.has_target_ratio(),
      "job.objective.late",
      "names no target: a search needs a quality (target_loss, "
      "target_accuracy, ...), a size (target_parameters, target_bytes), or "
      "both");
}

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
    add(Learned(spec.job(), own_rates, methods, history));
  }
  if (from_history != nullptr) *from_history = static_cast<int>(points.size());
  add(portfolio.Choose());
  return points;
}

bool HasOwnSteps(const v1::JobSpec& job) {
  return job.objective().early().steps() > 0 ||
         job.objective().late().max_steps() > 0;
}

SearchRounds PlanSearchRounds(int candidates, double budget, int parallel) {
  SearchRounds plan;
  // What all rounds cost, in units of the first round's allowance.
  double cost = 0, allowance = 1, before = 0;
  int live = std::max(1, candidates);
  while (true) {
    cost += TurnsOf(live, parallel) * (allowance - before);
    if (live <= 2) break;
    before = allowance;
    allowance *= 2;
    live = (live + 1) / 2;
    ++plan.rounds;
  }
  plan.first = budget / cost;
  plan.last = plan.first * allowance;
  return plan;
}

double NextSearchShare(int live, double left, int parallel) {
  double cost = 0, share = 1;
  for (live = std::max(1, live);; live = (live + 1) / 2) {
    cost += TurnsOf(live, parallel) * share;
    if (live <= 2) return left / cost;
    share *= 2;
  }
}

int64_t FirstSearchSteps(const v1::JobSpec& job, int candidates) {
  if (HasOwnSteps(job)) {
    return std::max<int64_t>(2, job.objective().early().steps() +
                                    job.objective().late().max_steps());
  }
  if (job.budget().has_steps()) {
    const SearchRounds plan =
        PlanSearchRounds(candidates, static_cast<double>(job.budget().steps()));
    return std::max<int64_t>(2, static_cast<int64_t>(plan.last));
  }
  return kUnlimitedSteps;
}

v1::JobSpec SearchBaseJob(const v1::SweepSpec& spec) {
  v1::JobSpec job = spec.job();
  job.clear_budget();
  job.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  if (late.target_quality_case() == v1::LateStage::TARGET_QUALITY_NOT_SET) {
    late.set_target_loss(kUnreachableLoss);
  }
  if (late.target_size_case() == v1::LateStage::TARGET_SIZE_NOT_SET) {
    late.set_target_ratio(kRatios[0]);
  }
  if (!job.training().has_validate_every_steps()) {
    job.mutable_training()->set_validate_every_steps(50);
  }
  return job;
}

void PlanSearchSteps(const v1::ObjectiveSpec& given, int64_t steps,
                     v1::JobSpec* run) {
  v1::ObjectiveSpec& objective = *run->mutable_objective();
  const bool shrinks =
      run->compression().method() == v1::CompressionSpec::COMERA;
  const auto given_early = static_cast<double>(given.early().steps());
  const auto given_late = static_cast<double>(given.late().max_steps());
  const double share = given_early > 0 && given_late > 0
                           ? given_early / (given_early + given_late)
                           : 0.5;
  const int64_t early =
      shrinks ? std::llround(static_cast<double>(steps) * share) : 0;
  objective.mutable_early()->set_steps(early);
  objective.mutable_late()->set_max_steps(std::max<int64_t>(1, steps - early));
}

}  // namespace comera
