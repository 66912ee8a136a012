// comera predict: runs a trained model on rows of raw data.
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/row_stream.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera predict ./model --input rows.tsv                  # label, probability
  comera predict ./model --input rows.tsv --columns premise,hypothesis -o json
  echo '{"text": "int <mask>;"}' | comera predict ./model --top-k 3
  comera predict jobs/4f2x7k3m5q6a/models/target-2 --input rows.jsonl --logits -o json
  comera predict 4f2x7k3m5q6a --remote --input rows.jsonl  # a worker answers
  comera predict ./model --input lines.txt --pseudo-loss)";

struct Arguments {
  ModelUse use;
  RowInput input;
  std::string out;
  int64_t top_k = 0;
  std::string worker;
  bool remote = false;
  bool logits = false;
  bool pseudo_loss = false;
};

// E.g. "Ġint 0.52, Ġlong 0.2".
std::string MaskText(const v1::FilledMask& mask) {
  return absl::StrJoin(mask.choices(), ", ",
                       [](std::string* out, const v1::TokenChoice& choice) {
                         absl::StrAppend(
                             out, Printable(choice.token()), " ",
                             absl::StrFormat("%.4f", choice.probability()));
                       });
}

// Formats a prediction as one line, with tabs between cells.
std::string RowText(const v1::Prediction& prediction) {
  if (!prediction.error().empty()) {
    return absl::StrCat("error\t", Printable(prediction.error()), "\n");
  }
  std::vector<std::string> cells;
  if (prediction.has_class_index()) {
    const int index = prediction.class_index();
    cells.push_back(prediction.label().empty() ? absl::StrCat(index)
                                               : Printable(prediction.label()));
    if (index >= 0 && index < prediction.probabilities_size()) {
      cells.push_back(absl::StrFormat("%.4f", prediction.probabilities(index)));
    }
  }
  for (const v1::FilledMask& mask : prediction.masks()) {
    cells.push_back(MaskText(mask));
  }
  if (prediction.has_loss()) {
    cells.push_back(absl::StrFormat("%.4f", prediction.loss()));
  }
  return absl::StrCat(absl::StrJoin(cells, "\t"), "\n");
}

absl::Status Answer(const Arguments& arguments, const Session& session,
                    RowReader* rows, RowPredictor* predictor,
                    RowCounts* counts) {
  std::ofstream file;
  std::ostream* out = session.env.out;
  if (!arguments.out.empty()) {
    file.open(arguments.out, std::ios::binary | std::ios::trunc);
    if (!file) {
      return absl::UnknownError(
          absl::StrCat(arguments.out, ": cannot be written"));
    }
    out = &file;
  }
  v1::PredictRequest request;
  request.set_top_k(static_cast<int32_t>(arguments.top_k));
  request.set_logits(arguments.logits);
  request.set_pseudo_loss(arguments.pseudo_loss);
  const absl::Status status =
      AnswerRows(rows, predictor, request, counts,
                 [&](const v1::PredictRow&, const v1::Prediction& prediction) {
                   switch (session.output) {
                     case OutputFormat::kTable:
                       *out << RowText(prediction);
                       break;
                     case OutputFormat::kJson:
                       *out << ToJson(prediction, /*one_line=*/true);
                       break;
                     case OutputFormat::kYaml:
                       *out << ToYaml(prediction);
                       break;
                   }
                   // Readers of a pipe see each answer at once; a file can be
                   // buffered.
                   if (arguments.out.empty()) out->flush();
                   if (out->good()) return absl::OkStatus();
                   return absl::UnknownError("the answers cannot be written");
                 });
  out->flush();
  if (status.ok() && !out->good()) {
    return absl::UnknownError("the answers cannot be written");
  }
  return status;
}

int Predict(const Arguments& arguments, const Session& session) {
  if (arguments.top_k < 0 || arguments.top_k > 100) {
    return session.Fail("--top-k: 0 to 100", kExitUsage);
  }
  std::error_code error;
  // Opening truncates the file before a row is read from it.
  if (std::filesystem::is_regular_file(arguments.out, error) &&
      std::filesystem::equivalent(arguments.out, arguments.input.file, error)) {
    return session.Fail("--out: the answers would overwrite --input",
                        kExitUsage);
  }
  const auto predictor = OpenPredictor(
      arguments.use, arguments.remote || !arguments.worker.empty(),
      arguments.worker, session);
  if (!predictor.ok()) return FailModelUse(predictor.status(), session);
  LineSource* source = nullptr;
  const auto rows = OpenRows(arguments.input,
                             /*labels=*/!arguments.input.label_column.empty(),
                             (*predictor)->model(), &source);
  if (!rows.ok()) return FailModelUse(rows.status(), session);
  RowCounts counts;
  absl::Status status;
  {
    Interrupts interrupts([&] {
      (*predictor)->Stop();
      source->Stop();
    });
    status = Answer(arguments, session, rows->get(), predictor->get(), &counts);
    if (interrupts.happened()) {
      return session.Fail(
          absl::StrCat("interrupted after ", counts.rows, " rows"),
          kExitInterrupted);
    }
  }
  if (counts.failed > 0) {
    session.Fail(
        absl::StrCat(counts.failed, " of ", counts.rows,
                     " rows have no answer; the first, line ",
                     counts.first_line, ": ", Printable(counts.first_error)),
        kExitClientError);
  }
  if (!status.ok()) return FailModelUse(status, session);
  return counts.failed > 0 ? kExitClientError : kExitOk;
}

}  // namespace

Verb PredictVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"predict", "Answer rows of data with a trained model",
               ModelArguments(&arguments->use, /*computes=*/true), nullptr};
  const auto rows = RowArguments(&arguments->input);
  verb.arguments.insert(verb.arguments.end(), rows.begin(), rows.end());
  const Argument more[] = {
      {"--remote",
       "A worker answers, not this machine",
       &arguments->remote,
       false,
       {}},
      {"--worker",
       "The worker to ask (any; implies --remote)",
       &arguments->worker,
       false,
       {}},
      {"--out", "Write the answers to this file", &arguments->out, false, {}},
      {"--top-k",
       "Masked LM: choices of each masked token (5)",
       &arguments->top_k,
       false,
       {}},
      {"--logits", "Logits too (-o json)", &arguments->logits, false, {}},
      {"--pseudo-loss",
       "Masked LM: the mean loss of a row's tokens, each masked in turn",
       &arguments->pseudo_loss,
       false,
       {}},
  };
  verb.arguments.insert(verb.arguments.end(), std::begin(more), std::end(more));
  verb.examples = kExamples;
  verb.run = [=] { return Predict(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
