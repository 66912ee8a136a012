// Writes the status line and the headers of an answer.
#include "common/http/response_head.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/http/http_reason.h"

namespace comera {
namespace {

// Neither may smuggle a line into the head.
bool IsOneLine(const std::string& text) {
  return text.find_first_of(std::string("\r\n\0", 3)) == std::string::npos;
}

}  // namespace

std::string ResponseHead(const HttpResponse& response,
                         std::optional<size_t> length, bool chunked,
                         bool keep_alive) {
  std::string head = absl::StrCat("HTTP/1.1 ", response.code, " ",
                                  HttpReason(response.code), "\r\n");
  for (const auto& [name, value] : response.headers) {
    if (!IsOneLine(name) || !IsOneLine(value)) continue;
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  if (length) absl::StrAppend(&head, "Content-Length: ", *length, "\r\n");
  if (chunked) absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n");
  absl::StrAppend(&head, "Date: ",
                  absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(),
                                   absl::UTCTimeZone()),
                  "\r\nConnection: ", keep_alive ? "keep-alive" : "close",
                  "\r\n\r\n");
  return head;
}

}  // namespace comera
