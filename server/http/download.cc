// Answers with a file of a model or checkpoint, whole or in part.
#include "server/http/download.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/http/answer.h"
#include "server/http/http_error.h"
#include "server/http/stream_answer.h"
#include "server/http/stream_format.h"

namespace comera::server {
namespace {

// Exactly the bytes that the head promises.
class FileBytes : public StreamFormat {
 public:
  FileBytes(HttpResponse head, int64_t size)
      : head_(std::move(head)), left_(size) {}

  HttpResponse Head() override { return head_; }
  absl::StatusOr<std::string> Message(const std::string& wire) override {
    v1::DownloadArtifactResponse part;
    if (!part.ParseFromString(wire)) {
      return absl::InternalError("a part of a file cannot be read");
    }
    std::string data = std::move(*part.mutable_data());
    data.resize(std::min<size_t>(data.size(), static_cast<size_t>(left_)));
    left_ -= static_cast<int64_t>(data.size());
    return data;
  }
  absl::StatusOr<std::string> End(const grpc::Status& status) override {
    if (status.ok() && left_ == 0) return std::string();
    return absl::DataLossError("the file broke off");
  }
  bool Finished() const override { return left_ == 0; }

 private:
  const HttpResponse head_;
  int64_t left_;
};

const v1::ArtifactFile* FindFile(const v1::Job& job,
                                 const v1::DownloadArtifactRequest& request) {
  for (const v1::Artifact& model : job.models()) {
    if (model.name() != request.name()) continue;
    for (const v1::ArtifactFile& file : model.files()) {
      if (file.path() == request.path()) return &file;
    }
  }
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.name() == request.name() && checkpoint.has_file() &&
        checkpoint.file().path() == request.path()) {
      return &checkpoint.file();
    }
  }
  return nullptr;
}

// The file's name as a header may have it: no quotes, no controls.
std::string FileName(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return c < 0x20 || c > 0x7e || c == '"' || c == '\\'; },
      '_');
  return name;
}

void Send(const std::shared_ptr<HttpExchange>& exchange, ApiCalls* calls,
          const ApiCaller& caller, const v1::ArtifactFile& file,
          v1::DownloadArtifactRequest request) {
  const HttpRequest& http = exchange->request();
  const std::string etag = absl::StrCat("\"", file.sha256(), "\"");
  HttpResponse head;
  head.headers = {{"ETag", etag},
                  {"Cache-Control", "private, no-cache"},
                  {"Vary", "Authorization, Cookie"},
                  {"Accept-Ranges", "bytes"}};
  if (HasTag(http, etag)) {
    head.code = 304;
    return SendAnswer(*exchange, std::move(head));
  }
  FileRange range{request.offset(), file.size_bytes() - request.offset()};
  const std::string* wanted = FindHeader(http.headers, "Range");
  const std::string* condition = FindHeader(http.headers, "If-Range");
  if (wanted != nullptr && (condition == nullptr || *condition == etag)) {
    if (const auto parsed = ParseRange(*wanted, file.size_bytes())) {
      range = *parsed;
      head.code = 206;
    }
  }
  if (head.code == 206 && range.size == 0) {
    HttpResponse response = ErrorResponse(
        absl::OutOfRangeError("the range is not in the file"), 416);
    response.headers.emplace_back("Content-Range",
                                  absl::StrCat("bytes */", file.size_bytes()));
    return SendAnswer(*exchange, std::move(response));
  }
  if (head.code == 206) {
    head.headers.emplace_back(
        "Content-Range",
        absl::StrCat("bytes ", range.offset, "-", range.offset + range.size - 1,
                     "/", file.size_bytes()));
  }
  head.headers.emplace_back("Content-Type", "application/octet-stream");
  head.headers.emplace_back(
      "Content-Disposition",
      absl::StrCat("attachment; filename=\"", FileName(file.path()), "\""));
  // A bad offset is the service's to refuse, before anything is sent.
  const int64_t size = std::max<int64_t>(range.size, 0);
  head.headers.emplace_back("Content-Length", absl::StrCat(size));
  request.set_offset(range.offset);
  AnswerWithStream(
      exchange, calls, ApiMethod("comera.v1.TrainingService.DownloadArtifact"),
      request, caller, std::make_unique<FileBytes>(std::move(head), size));
}

}  // namespace

std::optional<FileRange> ParseRange(const std::string& header, int64_t size) {
  absl::string_view text = header;
  if (!absl::ConsumePrefix(&text, "bytes=") || !absl::StrContains(text, '-')) {
    return std::nullopt;
  }
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const absl::string_view first = absl::StripAsciiWhitespace(ends.first);
  const absl::string_view last = absl::StripAsciiWhitespace(ends.second);
  const auto number = [](absl::string_view digits, int64_t* out) {
    return !digits.empty() &&
           digits.find_first_not_of("0123456789") == absl::string_view::npos &&
           absl::SimpleAtoi(digits, out);
  };
  int64_t from = 0;
  int64_t to = size - 1;
  if (first.empty()) {
    int64_t count = 0;
    if (!number(last, &count)) return std::nullopt;
    from = std::max<int64_t>(0, size - count);
  } else {
    if (!number(first, &from)) return std::nullopt;
    if (!last.empty() && !number(last, &to)) return std::nullopt;
    if (!last.empty() && to < from) return std::nullopt;
    to = std::min(to, size - 1);
  }
  if (from > to) return FileRange{};
  return FileRange{from, to - from + 1};
}

void AnswerWithFile(std::shared_ptr<HttpExchange> exchange, ApiCalls* calls,
                    const v1::DownloadArtifactRequest& request,
                    const ApiCaller& caller, absl::Duration timeout) {
  v1::GetJobRequest get;
  const std::vector<std::string> parts = absl::StrSplit(request.name(), '/');
  if (parts.size() > 1) get.set_name(absl::StrCat(parts[0], "/", parts[1]));
  const auto call = calls->Unary(
      ApiMethod("comera.v1.TrainingService.GetJob"), get, caller, timeout,
      [exchange, calls, request, caller](const grpc::Status& status,
                                         const std::string& wire) {
        v1::Job job;
        if (!status.ok() || !job.ParseFromString(wire)) {
          return SendAnswer(*exchange, ErrorResponse(status));
        }
        const v1::ArtifactFile* file = FindFile(job, request);
        if (file == nullptr) {
          return SendAnswer(*exchange,
                            ErrorResponse(absl::NotFoundError(
                                absl::StrCat(request.name(), " has no file \"",
                                             request.path(), "\" (?path=)"))));
        }
        Send(exchange, calls, caller, *file, request);
      });
  exchange->OnDisconnect([weak = std::weak_ptr<ApiCalls::Call>(call)] {
    if (const auto one = weak.lock()) one->Cancel();
  });
}

}  // namespace comera::server
