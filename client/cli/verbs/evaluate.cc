// comera evaluate: measures how good a trained model is on labelled data.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/row_stream.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/dataset_copies.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/session/temporary_file.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/verbs.h"
#include "client/program_output.h"
#include "common/area_under_curve.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace comera::client {
namespace {

using Json = nlohmann::json;

constexpr char kExamples[] =
    R"(  comera evaluate ./model --data job.yaml          # the job's validation set
  comera evaluate ./model --data job.yaml --set data.glue_tsv.validation=dev.tsv
  comera evaluate ./model --input dev.tsv.gz       # labelled rows
  comera evaluate jobs/4f2x7k3m5q6a/models/target-2 --input rows.jsonl --label-column gold -o json
  comera evaluate ./clicks --input day_23.tsv.gz)";

struct Arguments {
  ModelUse use;
  RowInput input;
  SpecInput spec;
  int64_t samples = 0;
};

// Runs the trainer on the job's validation set.
absl::StatusOr<v1::Evaluation> EvaluateJob(const Arguments& arguments,
                                           const v1::JobSpec& spec,
                                           const std::string& folder,
                                           const Session& session) {
  ASSIGN_OR_RETURN(const std::string trainer,
                   FindTrainer(arguments.use.trainer, session));
  const Json task = {
      {"spec", ParseJson(ToJson(spec, /*one_line=*/true))},
      {"work_dir", "/nonexistent"},
      {"cache_dir", absl::StrCat(session.env.state_folder, "/worker/cache")}};
  ASSIGN_OR_RETURN(const auto file, TemporaryFile::Create(JsonText(task)));
  ASSIGN_OR_RETURN(
      const ProgramOutput output,
      RunProgram({trainer, "--evaluate", absl::StrCat("--model=", folder),
                  absl::StrCat("--task=", file->path()),
                  absl::StrCat("--samples=", arguments.samples),
                  absl::StrCat("--device=", arguments.use.device),
                  absl::StrCat("--threads=", arguments.use.threads),
                  absl::StrCat("--batch=", arguments.use.batch)}));
  if (output.exit_code != 0) {
    absl::string_view said = absl::StripAsciiWhitespace(output.err);
    absl::ConsumePrefix(&said, "comera-trainer: ");
    absl::ConsumePrefix(&said, file->path() + ": ");
    return absl::InvalidArgumentError(
        said.empty()
            ? absl::StrCat("comera-trainer ended with ", output.exit_code)
            : std::string(said));
  }
  v1::Evaluation evaluation;
  google::protobuf::util::JsonParseOptions lenient;
  // A newer program may send more fields.
  lenient.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(output.out, &evaluation,
                                                   lenient)
           .ok()) {
    return absl::InternalError("comera-trainer gave no result");
  }
  return evaluation;
}

// Accumulates measures over labelled rows.
class RowTotals {
 public:
  void Add(const v1::PredictRow& row, const v1::Prediction& prediction) {
    if (!prediction.error().empty() || !prediction.has_loss()) return;
    loss_ += prediction.loss();
    ++labels_;
    if (!prediction.has_class_index()) return;
    ++classed_;
    const bool right = prediction.label() == row.label();
    correct_ += right;
    if (prediction.probabilities_size() != 2) return;
    // Ranks by log-odds, because probabilities near 1 are indistinguishable.
    const bool two = prediction.logits_size() == 2;
    if (!two && prediction.logits_size() != 1) return;
    scores_.push_back(two ? prediction.logits(1) - prediction.logits(0)
                          : prediction.logits(0));
    truths_.push_back((prediction.class_index() == 1) == right ? 1.0f : 0.0f);
  }

  std::optional<v1::Evaluation> Result(const RowCounts& counts) const {
    if (labels_ == 0) return std::nullopt;
    v1::Evaluation evaluation;
    evaluation.set_loss(loss_ / static_cast<double>(labels_));
    if (classed_ > 0) {
      evaluation.set_accuracy(static_cast<double>(correct_) /
                              static_cast<double>(classed_));
    }
    evaluation.set_samples(counts.rows);
    evaluation.set_labels(labels_);
    evaluation.set_failed(counts.failed);
    if (const auto auc = AreaUnderCurve(scores_, truths_)) {
      evaluation.set_auc(*auc);
    }
    if (const auto entropy = NormalizedEntropy(evaluation.loss(), truths_)) {
      evaluation.set_normalized_entropy(*entropy);
    }
    return evaluation;
  }

 private:
  double loss_ = 0;
  int64_t labels_ = 0, classed_ = 0, correct_ = 0;
  std::vector<float> scores_, truths_;
};

void Print(const v1::Evaluation& evaluation, const Session& session) {
  if (session.output != OutputFormat::kTable) {
    session.Print(evaluation, /*one_line=*/false);
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"loss", FormatFigure(evaluation.loss())}};
  if (evaluation.has_accuracy()) {
    rows.push_back(
        {"accuracy", absl::StrFormat("%.2f%%", 100 * evaluation.accuracy())});
  }
  if (evaluation.has_f1()) {
    rows.push_back({"F1", absl::StrFormat("%.4f", evaluation.f1())});
  }
  if (evaluation.has_mcc()) {
    rows.push_back({"MCC", absl::StrFormat("%.4f", evaluation.mcc())});
  }
  if (evaluation.has_auc()) {
    rows.push_back({"AUC", absl::StrFormat("%.4f", evaluation.auc())});
  }
  if (evaluation.has_normalized_entropy()) {
    rows.push_back({"normalized entropy",
                    absl::StrFormat("%.4f", evaluation.normalized_entropy())});
  }
  rows.push_back({"rows", FormatCount(evaluation.samples())});
  if (evaluation.labels() != evaluation.samples()) {
    rows.push_back({"labels", FormatCount(evaluation.labels())});
  }
  *session.env.out << FormatTable(rows) << std::flush;
}

int EvaluateRows(const Arguments& arguments, const std::string& folder,
                 const Session& session) {
  auto predictor = StartPredictor(arguments.use, folder, session);
  if (!predictor.ok()) return FailModelUse(predictor.status(), session);
  const v1::ServedModel& model = (*predictor)->model();
  const bool language_model =
      model.family() == "masked_lm" || model.family() == "causal_lm";
  if (model.family() == "encoder_classifier" && model.labels().empty()) {
    return session.Fail(
        "the model does not know its classes' labels: "
        "evaluate it with --data",
        kExitClientError);
  }
  LineSource* source = nullptr;
  const auto rows =
      OpenRows(arguments.input, /*labels=*/!language_model, model, &source);
  if (!rows.ok()) return FailModelUse(rows.status(), session);
  v1::PredictRequest request;
  request.set_pseudo_loss(language_model);
  request.set_logits(model.classes() == 2);
  RowCounts counts;
  RowTotals totals;
  absl::Status status;
  {
    Interrupts interrupts([&] {
      (*predictor)->Stop();
      source->Stop();
    });
    status = AnswerRows(
        rows->get(), predictor->get(), request, &counts,
        [&](const v1::PredictRow& row, const v1::Prediction& prediction) {
          totals.Add(row, prediction);
          return absl::OkStatus();
        });
    if (interrupts.happened()) {
      return session.Fail(
          absl::StrCat("interrupted after ", counts.rows, " rows"),
          kExitInterrupted);
    }
  }
  if (!status.ok()) return FailModelUse(status, session);
  if (counts.failed > 0) {
    session.Note(absl::StrCat(counts.failed, " of ", counts.rows,
                              " rows do not count; the first, line ",
                              counts.first_line, ": ",
                              Printable(counts.first_error)));
  }
  const std::optional<v1::Evaluation> evaluation = totals.Result(counts);
  if (!evaluation) {
    return session.Fail("no row has a label that counts", kExitClientError);
  }
  Print(*evaluation, session);
  return kExitOk;
}

int Evaluate(const Arguments& arguments, const Session& session) {
  if (arguments.samples < 0) {
    return session.Fail("--samples: not negative", kExitUsage);
  }
  if (arguments.spec.file.empty() && !arguments.spec.assignments.empty()) {
    return session.Fail("--set changes the job file that --data names",
                        kExitUsage);
  }
  const absl::StatusOr<std::string> folder = FindModel(arguments.use, session);
  if (!folder.ok()) return FailModelUse(folder.status(), session);
  if (arguments.spec.file.empty()) {
    return EvaluateRows(arguments, *folder, session);
  }
  const std::optional<v1::JobSpec> spec =
      ReadSoundSpec(arguments.spec, session);
  if (!spec) return kExitClientError;
  v1::JobSpec local = *spec;
  std::unique_ptr<DatasetCopies> copies;
  if (ReadsDatasets(local)) {
    const auto channel = session.Channel();
    if (!channel.ok()) return session.FailRpc(channel.status());
    DatasetClient datasets(*channel, session.ClientOptions());
    Interrupts interrupts([&] { datasets.Stop(); });
    session.Note("fetching the job's datasets");
    auto fetched = DatasetCopies::Fetch(&local, &datasets);
    if (interrupts.happened()) return kExitInterrupted;
    if (!fetched.ok()) return session.FailRpc(fetched.status());
    copies = *std::move(fetched);
  }
  const absl::StatusOr<v1::Evaluation> evaluation =
      EvaluateJob(arguments, local, *folder, session);
  if (!evaluation.ok()) return FailModelUse(evaluation.status(), session);
  Print(*evaluation, session);
  return kExitOk;
}

}  // namespace

Verb EvaluateVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"evaluate", "Tell how good a trained model is on data",
               ModelArguments(&arguments->use, /*computes=*/true), nullptr};
  const Argument first[] = {
      {"--data",
       "Job file: evaluate on its validation set",
       &arguments->spec.file,
       false,
       {}},
      {"--set",
       "With --data, sets a field: FIELD=VALUE; repeatable",
       &arguments->spec.assignments,
       false,
       {}},
      {"--samples",
       "With --data, at most so many (all)",
       &arguments->samples,
       false,
       {}},
  };
  verb.arguments.insert(verb.arguments.end(), std::begin(first),
                        std::end(first));
  const auto rows = RowArguments(&arguments->input);
  verb.arguments.insert(verb.arguments.end(), rows.begin(), rows.end());
  verb.examples = kExamples;
  verb.run = [=] { return Evaluate(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
