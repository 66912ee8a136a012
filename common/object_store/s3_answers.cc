// Reads the answers of S3 services with Expat: the texts of leaf elements, by
// their paths below the root.

#include "common/object_store/s3_answers.h"

#include <expat.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace comera {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxCode = 64;

// Called at the end of each element with its path, e.g. "Contents/Key", and the
// text in it.
using OnElement =
    std::function<void(const std::string& path, const std::string& text)>;

struct Reading {
  XML_Parser parser = nullptr;
  const OnElement* on_element = nullptr;
  std::string root;
  // The open elements below the root.
  std::vector<std::string> path;
  size_t depth = 0;
  std::string text;
  bool refused = false;

  void Refuse() {
    refused = true;
    XML_StopParser(parser, XML_FALSE);
  }
};

void XMLCALL OnStart(void* user, const XML_Char* name, const XML_Char**) {
  Reading& reading = *static_cast<Reading*>(user);
  reading.text.clear();
  if (++reading.depth > kMaxDepth) return reading.Refuse();
  if (reading.depth == 1) {
    reading.root = name;
  } else {
    reading.path.emplace_back(name);
  }
}

void XMLCALL OnText(void* user, const XML_Char* data, int size) {
  Reading& reading = *static_cast<Reading*>(user);
  reading.text.append(data, static_cast<size_t>(size));
  if (reading.text.size() > kMaxText) reading.Refuse();
}

void XMLCALL OnEnd(void* user, const XML_Char*) {
  Reading& reading = *static_cast<Reading*>(user);
  --reading.depth;
  if (reading.path.empty()) return;
  (*reading.on_element)(absl::StrJoin(reading.path, "/"), reading.text);
  reading.path.pop_back();
  reading.text.clear();
}

absl::Status Malformed() {
  return absl::FailedPreconditionError(
      "the server's answer is not what a service that speaks S3 would send");
}

// Returns the name of the root.
absl::StatusOr<std::string> ReadXml(absl::string_view xml,
                                    const OnElement& on_element) {
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)>
      parser(XML_ParserCreate("UTF-8"), XML_ParserFree);
  if (parser == nullptr) return absl::InternalError("Expat does not start");
  Reading reading;
  reading.parser = parser.get();
  reading.on_element = &on_element;
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  const XML_Status status = XML_Parse(
      parser.get(), xml.data(), static_cast<int>(xml.size()), /*isFinal=*/1);
  if (status != XML_STATUS_OK || reading.refused) return Malformed();
  return reading.root;
}

absl::Status ReadXmlOf(const char* root, absl::string_view xml,
                       const OnElement& on_element) {
  const absl::StatusOr<std::string> read = ReadXml(xml, on_element);
  if (!read.ok()) return read.status();
  return *read == root ? absl::OkStatus() : Malformed();
}

}  // namespace

absl::StatusOr<S3Listing> ParseS3Listing(absl::string_view xml) {
  S3Listing listing;
  S3Listing::Object object;
  bool sane = true;
  bool more = false;
  const absl::Status status =
      ReadXmlOf("ListBucketResult", xml,
                [&](const std::string& path, const std::string& text) {
                  if (path == "Contents/Key") object.key = text;
                  if (path == "Contents/Size") {
                    sane = sane && absl::SimpleAtoi(text, &object.size) &&
                           object.size >= 0;
                  }
                  if (path == "Contents") {
                    listing.objects.push_back(object);
                    object = S3Listing::Object();
                  }
                  if (path == "IsTruncated") more = text == "true";
                  if (path == "NextContinuationToken") listing.next = text;
                });
  if (!status.ok()) return status;
  if (!sane || (more && listing.next.empty())) return Malformed();
  if (!more) listing.next.clear();
  return listing;
}

absl::StatusOr<S3Uploads> ParseS3Uploads(absl::string_view xml) {
  S3Uploads uploads;
  S3Uploads::Upload upload;
  bool more = false;
  const absl::Status status =
      ReadXmlOf("ListMultipartUploadsResult", xml,
                [&](const std::string& path, const std::string& text) {
                  if (path == "Upload/Key") upload.key = text;
                  if (path == "Upload/UploadId") upload.id = text;
                  // What has no time that can be read counts as new.
                  if (path == "Upload/Initiated") {
                    std::string why;
                    if (!absl::ParseTime(absl::RFC3339_full, text,
                                         &upload.initiated, &why)) {
                      upload.initiated = absl::InfiniteFuture();
                    }
                  }
                  if (path == "Upload") {
                    uploads.uploads.push_back(upload);
                    upload = S3Uploads::Upload();
                  }
                  if (path == "IsTruncated") more = text == "true";
                  if (path == "NextKeyMarker") uploads.next_key = text;
                  if (path == "NextUploadIdMarker") uploads.next_id = text;
                });
  if (!status.ok()) return status;
  if (more && uploads.next_key.empty()) return Malformed();
  if (!more) uploads.next_key.clear();
  return uploads;
}

absl::StatusOr<std::string> ParseS3UploadId(absl::string_view xml) {
  std::string id;
  const absl::Status status =
      ReadXmlOf("InitiateMultipartUploadResult", xml,
                [&](const std::string& path, const std::string& text) {
                  if (path == "UploadId") id = text;
                });
  if (!status.ok()) return status;
  if (id.empty()) return Malformed();
  return id;
}

absl::Status ParseS3Completion(absl::string_view xml) {
  std::string code;
  const absl::StatusOr<std::string> root =
      ReadXml(xml, [&](const std::string& path, const std::string& text) {
        if (path == "Code") code = text;
      });
  if (!root.ok()) return root.status();
  if (*root == "CompleteMultipartUploadResult") return absl::OkStatus();
  if (*root != "Error") return Malformed();
  if (code == "NoSuchUpload") {
    return absl::NotFoundError("the server does not know the upload");
  }
  if (code == "InternalError" || code == "SlowDown" ||
      code == "ServiceUnavailable") {
    return absl::UnavailableError("the server could not end the upload");
  }
  return absl::FailedPreconditionError("the server refuses the upload's end");
}

std::string ParseS3ErrorCode(absl::string_view xml) {
  std::string code;
  const absl::Status status = ReadXmlOf(
      "Error", xml, [&](const std::string& path, const std::string& text) {
        if (path == "Code") code = text;
      });
  const bool sane = status.ok() && code.size() <= kMaxCode &&
                    std::all_of(code.begin(), code.end(), [](char c) {
                      return absl::ascii_isalnum(static_cast<unsigned char>(c));
                    });
  return sane ? code : "";
}

}  // namespace comera
