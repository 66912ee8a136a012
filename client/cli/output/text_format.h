// Formats the CLI's figures and texts.
#ifndef COMERA_CLIENT_CLI_OUTPUT_TEXT_FORMAT_H_
#define COMERA_CLIENT_CLI_OUTPUT_TEXT_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace comera::client {

// E.g. 3m12s, 2h05m, 4d03h, 7s.
std::string DurationText(absl::Duration duration);
// E.g. 4.2 MiB, 812 B.
std::string FormatBytes(double bytes);
// E.g. 4.20 kJ, 0.81 J.
std::string FormatJoules(double joules);
// E.g. 1,026,528.
std::string FormatCount(int64_t count);
// E.g. 1.03M, 812k, 64; for narrow columns.
std::string FormatShort(double count);
// Prints four significant digits: 3.217, 0.0123.
std::string FormatFigure(double value);

absl::Time ToTime(const google::protobuf::Timestamp& timestamp);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

// The part of a resource name after the last slash.
std::string LastSegment(const std::string& name);

// E.g. "FAILED (DATA)", "SUCCEEDED TARGET_MET", "RUNNING".
std::string StateText(const v1::Job& job);

// Makes text of a server or a job safe for a terminal: control characters and
// those that change the direction of writing become spaces.
std::string Printable(std::string_view text);

// Formats rows under a header, with columns as wide as needed and two spaces
// between them.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// The number of columns that `text` (UTF-8) takes on a terminal: two for East
// Asian wide characters and emoji, none for combining marks.
size_t DisplayWidth(std::string_view text);
// Cuts `text` to `width` columns.
std::string CutToWidth(const std::string& text, size_t width);
// Cuts `text` to `width` columns, with "…" at the end if it was cut.
std::string Shortened(const std::string& text, size_t width);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_TEXT_FORMAT_H_
