// comera datasets: uploads, lists, describes and deletes datasets.
#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/cli/live/transfer_bar.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/label_filter.h"
#include "client/cli/verbs/verbs.h"
#include "client/dataset_client.h"
#include "common/files.h"
#include "proto/dataset_names.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera datasets upload mnli train.tsv dev.tsv --label task=nli
  comera datasets upload linux ~/linux/kernel   # a folder, for code_directory
  comera datasets                               # the list
  comera datasets describe mnli                 # rows, labels, lengths
  comera datasets files mnli@2
  comera datasets download mnli@2 ./copy
  comera datasets delete mnli@1

In a job file: train: datasets/mnli/train.tsv (the newest version when the job
is accepted) or datasets/mnli@2/train.tsv.)";

struct Arguments {
  std::string action = "list";
  std::vector<std::string> words;
  std::vector<std::string> labels;
  std::string path;
};

// One invocation of the verb.
class Command {
 public:
  Command(const Arguments& arguments, const Session& session)
      : arguments_(arguments), session_(session) {}

  int Run() {
    auto labels = ParseLabels(arguments_.labels);
    if (!labels.ok()) return Usage(std::string(labels.status().message()));
    labels_ = *std::move(labels);
    const auto channel = session_.Channel();
    if (!channel.ok()) return session_.FailRpc(channel.status());
    TrainingClient::Options options;
    options.timeout = session_.timeout;
    options.attempt_timeout = session_.timeout;
    client_ = std::make_unique<DatasetClient>(*channel, options);
    const std::string& action = arguments_.action;
    if (action == "list") return List();
    if (arguments_.words.empty()) {
      return Usage(absl::StrCat("datasets ", action, ": which dataset?"));
    }
    name_ = arguments_.words[0];
    if (!absl::StartsWith(name_, "datasets/")) name_ = "datasets/" + name_;
    const auto reference = ParseDatasetReference(name_);
    if (!reference || !reference->path.empty()) {
      return Usage(absl::StrCat("`", Printable(arguments_.words[0]),
                                "` is no dataset: NAME or NAME@VERSION, a name "
                                "being [a-z0-9-], at most 63"));
    }
    const size_t most = action == "upload"     ? arguments_.words.size()
                        : action == "download" ? 2
                                               : 1;
    if (arguments_.words.size() > most) {
      return Usage(absl::StrCat("unexpected argument `",
                                Printable(arguments_.words[most]), "`"));
    }
    if (action == "upload") return Upload(*reference);
    if (action == "get") return Get();
    if (action == "files") return Files();
    if (action == "describe") return Describe();
    if (action == "download") return Download();
    return Delete();
  }

 private:
  int Usage(const std::string& message) {
    return session_.Fail(message, kExitUsage);
  }
  bool table() const { return session_.output == OutputFormat::kTable; }

  int List() {
    if (!arguments_.words.empty()) return Usage("datasets list: no argument");
    const auto datasets = client_->List(labels_);
    if (!datasets.ok()) return session_.FailRpc(datasets.status());
    if (!table()) {
      v1::ListDatasetsResponse response;
      for (const auto& dataset : *datasets) *response.add_datasets() = dataset;
      session_.Print(response, /*one_line=*/false);
      return kExitOk;
    }
    std::vector<std::vector<std::string>> rows = {
        {"NAME", "VERSION", "FILES", "BYTES", "AGE", "OWNER", "LABELS"}};
    for (const v1::Dataset& dataset : *datasets) {
      if (dataset.versions().empty()) continue;
      const v1::DatasetVersion& newest =
          dataset.versions(dataset.versions_size() - 1);
      std::vector<std::string> labels;
      for (const auto& [key, value] : dataset.labels()) {
        labels.push_back(absl::StrCat(key, "=", value));
      }
      std::sort(labels.begin(), labels.end());
      rows.push_back(
          {LastSegment(dataset.name()), absl::StrCat(newest.number()),
           FormatCount(newest.file_count()), FormatBytes(newest.size_bytes()),
           DurationText(absl::Now() - ToTime(newest.create_time())),
           dataset.user().empty() ? "-" : Printable(dataset.user()),
           Printable(absl::StrJoin(labels, ","))});
    }
    return session_.PrintTable(rows);
  }

  int Upload(const DatasetReference& reference) {
    if (reference.version != 0) {
      return Usage("versions are numbered by the server: upload to " +
                   reference.dataset);
    }
    const std::vector<std::string> paths(arguments_.words.begin() + 1,
                                         arguments_.words.end());
    if (paths.empty()) return Usage("datasets upload: which files?");
    const auto local = FindLocalFiles(paths);
    if (!local.ok()) {
      return session_.Fail(Printable(std::string(local.status().message())),
                           kExitClientError);
    }
    if (local->left_out > 0) {
      session_.Note(absl::StrCat("left out: ", local->left_out,
                                 " hidden files, links and special files"));
    }
    TransferBar bar(session_);
    absl::StatusOr<v1::Dataset> dataset;
    {
      Interrupts interrupts([this] { client_->Stop(); });
      dataset =
          client_->Upload(reference.dataset, local->files, labels_,
                          [&](const DatasetClient::Progress& progress) {
                            bar.Show(progress.sending ? "sending" : "reading",
                                     progress.done_bytes, progress.total_bytes);
                          });
      bar.End();
      if (interrupts.happened()) {
        return session_.Fail(
            "interrupted; the same command goes on where this one stopped",
            kExitInterrupted);
      }
    }
    if (!dataset.ok()) return session_.FailRpc(dataset.status());
    if (table()) {
      // Prints the name for use in job files, so that scripts can read it.
      *session_.env.out
          << dataset->versions(dataset->versions_size() - 1).name()
          << std::endl;
    } else {
      session_.Print(*dataset, /*one_line=*/false);
    }
    return kExitOk;
  }

  int Get() {
    const auto dataset = client_->Get(name_);
    if (!dataset.ok()) return session_.FailRpc(dataset.status());
    if (!table()) {
      session_.Print(*dataset, /*one_line=*/false);
      return kExitOk;
    }
    std::vector<std::vector<std::string>> rows = {
        {"VERSION", "FILES", "BYTES", "AGE", "USER", "DIGEST"}};
    for (const v1::DatasetVersion& version : dataset->versions()) {
      rows.push_back({LastSegment(version.name()),
                      FormatCount(version.file_count()),
                      FormatBytes(version.size_bytes()),
                      DurationText(absl::Now() - ToTime(version.create_time())),
                      version.user().empty() ? "-" : Printable(version.user()),
                      version.digest().substr(0, 12)});
    }
    return session_.PrintTable(rows);
  }

  int Files() {
    const auto files = client_->ListFiles(name_);
    if (!files.ok()) return session_.FailRpc(files.status());
    if (!table()) {
      v1::ListDatasetFilesResponse response;
      for (const auto& file : *files) *response.add_files() = file;
      session_.Print(response, /*one_line=*/false);
      return kExitOk;
    }
    std::vector<std::vector<std::string>> rows = {{"PATH", "BYTES", "SHA256"}};
    for (const v1::DatasetFile& file : *files) {
      rows.push_back({Printable(file.path()), FormatBytes(file.size_bytes()),
                      file.sha256().substr(0, 12)});
    }
    return session_.PrintTable(rows);
  }

  int Describe() {
    v1::DescribeDatasetRequest request;
    request.set_name(name_);
    request.set_path(arguments_.path);
    const auto description = client_->Describe(request);
    if (!description.ok()) return session_.FailRpc(description.status());
    if (!table()) {
      session_.Print(*description, /*one_line=*/false);
      return kExitOk;
    }
    std::vector<std::vector<std::string>> rows = {
        {"FILE", "FORMAT", "BYTES", "ROWS", "WORDS (MEDIAN, MOST)", "LABELS",
         "NOTES"}};
    for (const auto& file : description->files()) rows.push_back(Row(file));
    *session_.env.out << session_.TableText(rows, {"NOTES"}) << std::flush;
    if (description->endings_size() > 1) {
      std::vector<std::vector<std::string>> endings = {
          {"ENDING", "FILES", "BYTES"}};
      for (const v1::EndingDescription& ending : description->endings()) {
        endings.push_back(
            {ending.ending().empty() ? "-" : Printable(ending.ending()),
             FormatCount(ending.files()), FormatBytes(ending.size_bytes())});
      }
      *session_.env.out << "\n" << session_.TableText(endings) << std::flush;
    }
    return kExitOk;
  }

  static std::vector<std::string> Row(const v1::FileDescription& file) {
    std::vector<std::string> labels, notes;
    for (const v1::LabelCount& label : file.labels()) {
      if (labels.size() == 4) {
        labels.push_back("…");
        break;
      }
      labels.push_back(
          absl::StrCat(label.label(), ":", FormatCount(label.rows())));
    }
    int64_t rows = 0, seen = 0, median = 0, most = 0;
    for (const auto& bucket : file.lengths()) rows += bucket.rows();
    for (const auto& bucket : file.lengths()) {
      seen += bucket.rows();
      if (median == 0 && 2 * seen >= rows) median = bucket.at_most();
      most = bucket.at_most();
    }
    if (file.gzip()) notes.push_back("gzip");
    if (file.odd_rows() > 0) {
      notes.push_back(absl::StrCat(FormatCount(file.odd_rows()), " odd rows"));
    }
    if (file.truncated()) notes.push_back("only the beginning");
    if (!file.problem().empty()) notes.push_back(file.problem());
    return {Printable(file.path()),
            v1::FileDescription::Format_Name(file.format()),
            FormatBytes(file.size_bytes()),
            FormatCount(file.rows()),
            rows == 0 ? "-" : absl::StrCat("≤", median, ", ≤", most),
            labels.empty() ? "-" : Printable(absl::StrJoin(labels, " ")),
            Printable(absl::StrJoin(notes, "; "))};
  }

  int Download() {
    if (arguments_.words.size() < 2) {
      return Usage("datasets download: into which folder?");
    }
    const std::string folder = absl::StrCat(arguments_.words[1], "/");
    const auto files = client_->ListFiles(name_);
    if (!files.ok()) return session_.FailRpc(files.status());
    int64_t total = 0, done = 0;
    for (const v1::DatasetFile& file : *files) total += file.size_bytes();
    TransferBar bar(session_);
    Interrupts interrupts([this] { client_->Stop(); });
    for (const v1::DatasetFile& file : *files) {
      if (!IsDatasetPath(file.path())) {
        return session_.Fail("the server names a file that is none",
                             kExitClientError);
      }
      const std::string path = folder + file.path();
      absl::Status status = MakeDirectories(path.substr(0, path.rfind('/')));
      if (status.ok()) status = client_->Download(file, path);
      if (interrupts.happened()) {
        return session_.Fail(
            "interrupted; the same command goes on where this one stopped",
            kExitInterrupted);
      }
      if (!status.ok()) return session_.FailRpc(status);
      done += file.size_bytes();
      bar.Show("fetching", done, total);
    }
    bar.End();
    return kExitOk;
  }

  int Delete() {
    const auto freed = client_->Delete(name_);
    if (!freed.ok()) return session_.FailRpc(freed.status());
    session_.Note(
        absl::StrCat("deleted ", name_, ", ", FormatBytes(*freed), " freed"));
    return kExitOk;
  }

  const Arguments& arguments_;
  const Session& session_;
  DatasetClient::Labels labels_;
  std::string name_;
  std::unique_ptr<DatasetClient> client_;
};

}  // namespace

Verb DatasetsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "datasets", "Upload, list, describe and delete datasets", {}, nullptr};
  verb.arguments = {
      {"action",
       "What to do (list)",
       &arguments->action,
       false,
       {"list", "upload", "get", "files", "describe", "download", "delete"}},
      {"words",
       "NAME or NAME@VERSION; upload: then files and folders; download: then a "
       "folder",
       &arguments->words,
       false,
       {},
       Names::kDataset},
      {"--label",
       "upload: KEY=VALUE to set; list: only datasets with it; repeatable",
       &arguments->labels,
       false,
       {}},
      {"--path", "describe: only this file", &arguments->path, false, {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Command(*arguments, *session).Run(); };
  return verb;
}

}  // namespace comera::client
