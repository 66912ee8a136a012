// How the CLI writes figures.
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

// 3m12s, 2h05m, 4d03h, 7s.
std::string DurationText(absl::Duration duration);
// 4.2 MiB, 812 B.
std::string FormatBytes(double bytes);
// 1,026,528.
std::string FormatCount(int64_t count);
// 1.03M, 812k, 64: for narrow columns.
std::string FormatShort(double count);
// Four significant digits: 3.217, 0.0123.
std::string FormatFigure(double value);

absl::Time ToTime(const google::protobuf::Timestamp& timestamp);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

// The part of a resource name after the last slash.
std::string LastSegment(const std::string& name);

// "FAILED (DATA)", "SUCCEEDED TARGET_MET", "RUNNING".
std::string StateText(const v1::Job& job);

// Text of a server or a job made safe for a terminal: control characters
// become spaces, and so do those that turn the direction of writing.
std::string Printable(std::string_view text);

// Rows under a header, columns as wide as they need, two spaces between.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// Columns that `text` (UTF-8) takes on a terminal: two for East Asian wide
// characters and emoji, none for marks that combine.
size_t DisplayWidth(std::string_view text);
// `text` cut to `width` columns.
std::string CutToWidth(const std::string& text, size_t width);
// The same; what was cut ends with "…".
std::string Shortened(const std::string& text, size_t width);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_TEXT_FORMAT_H_
