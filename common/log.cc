// Writes log lines with spdlog.
#include "common/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace comera {
namespace {

spdlog::level::level_enum LevelOf(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return spdlog::level::info;
    case LogSeverity::kWarning:
      return spdlog::level::warn;
    case LogSeverity::kError:
      return spdlog::level::err;
    case LogSeverity::kFatal:
      return spdlog::level::critical;
  }
  return spdlog::level::err;
}

// The level's letter: I, W, E, or F, which spdlog itself would call critical.
class LevelLetter : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    line.push_back(message.level == spdlog::level::info   ? 'I'
                   : message.level == spdlog::level::warn ? 'W'
                   : message.level == spdlog::level::err  ? 'E'
                                                          : 'F');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelLetter>();
  }
};

// The logger is never destroyed: threads may log until the process ends.
spdlog::logger& Logger() {
  static auto* const logger = [] {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<LevelLetter>('*');
    formatter->set_pattern("%*%Y%m%d %H:%M:%S.%f %5t %s:%#] %v");
    auto* made = new spdlog::logger(
        "comera", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::move(formatter));
    return made;
  }();
  return *logger;
}

}  // namespace

LogMessage::~LogMessage() { Write(); }

void LogMessage::Write() {
  if (written_) return;
  written_ = true;
  Logger().log(spdlog::source_loc(file_, line_, ""), LevelOf(severity_),
               spdlog::string_view_t(stream_.str()));
}

FatalLogMessage::~FatalLogMessage() {
  Write();
  std::abort();
}

}  // namespace comera
