// Lays out the tables and details of comera top and reacts to keys.

#include "client/cli/live/top_view.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/job_row.h"
#include "client/cli/output/table.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/worker_rows.h"

namespace comera::client {
namespace {

constexpr int kPage = 10;
constexpr int64_t kIntervals[] = {1, 2, 5, 10, 30};
// Below this height only jobs are shown.
constexpr int kLeastForSections = 16;

const char* SortName(TopSort sort) {
  switch (sort) {
    case TopSort::kNewest:
      return "newest";
    case TopSort::kState:
      return "state";
    case TopSort::kProgress:
      return "progress";
    case TopSort::kEta:
      return "ETA";
    case TopSort::kName:
      return "name";
  }
  return "";
}

double EtaSeconds(const v1::Job& job) {
  return job.progress().has_eta()
             ? static_cast<double>(job.progress().eta().seconds())
             : 1e18;
}

bool Passes(const v1::Job& job, const std::string& filter) {
  const std::string text = absl::AsciiStrToLower(
      absl::StrCat(job.name(), " ", job.spec().display_name(), " ",
                   StateText(job), " ", job.spec().queue(), " ", job.user()));
  return absl::StrContains(text, absl::AsciiStrToLower(filter));
}

int IndexOf(const std::vector<const v1::Job*>& jobs, const std::string& name) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->name() == name) return static_cast<int>(i);
  }
  return 0;
}

void Move(const TopState& state, int by, TopChoice* choice) {
  const auto jobs = ShownJobs(state, *choice);
  if (jobs.empty()) return;
  const int index = std::clamp(IndexOf(jobs, choice->job) + by, 0,
                               static_cast<int>(jobs.size()) - 1);
  choice->job = jobs[index]->name();
}

// The job that keys act on; null if there is none.
const v1::Job* Selected(const TopState& state, const TopChoice& choice) {
  const auto jobs = ShownJobs(state, choice);
  return jobs.empty() ? nullptr : jobs[IndexOf(jobs, choice.job)];
}

TopAction TypeFilter(const KeyPress& key, TopChoice* choice) {
  if (key.key == Key::kText) {
    choice->filter += key.text;
  } else if (key.key == Key::kBackspace && !choice->filter.empty()) {
    // Removes a whole character, back to its first byte.
    bool first = false;
    while (!first && !choice->filter.empty()) {
      first = (choice->filter.back() & 0xC0) != 0x80;
      choice->filter.pop_back();
    }
  } else if (key.key == Key::kEscape) {
    choice->filter.clear();
    choice->typing_filter = false;
  } else if (key.key == Key::kEnter) {
    choice->typing_filter = false;
  }
  return TopAction::kNone;
}

TopAction PressLetter(char letter, const TopState& state, TopChoice* choice) {
  switch (letter) {
    case 'q':
      return TopAction::kQuit;
    case 'j':
      Move(state, 1, choice);
      break;
    case 'k':
      Move(state, -1, choice);
      break;
    case 's':
      choice->sort =
          static_cast<TopSort>((static_cast<int>(choice->sort) + 1) % 5);
      break;
    case '/':
      choice->typing_filter = true;
      choice->details = false;
      break;
    case 'c':
      if (const v1::Job* job = Selected(state, *choice)) {
        choice->cancelling = job->name();
      }
      break;
    case 'r': {
      const auto* next = std::upper_bound(
          std::begin(kIntervals), std::end(kIntervals), choice->interval_s);
      choice->interval_s = next == std::end(kIntervals) ? kIntervals[0] : *next;
      choice->note = absl::StrCat("every ", choice->interval_s, " s");
      return TopAction::kRefresh;
    }
    case ' ':
      return TopAction::kRefresh;
    default:
      break;
  }
  return TopAction::kNone;
}

// Returns `line` with the first occurrence of `word` in a tone of its own.
StyledLine Highlighted(const std::string& line, const std::string& word,
                       Tone tone) {
  const size_t at = word.empty() ? std::string::npos : line.find(word);
  if (at == std::string::npos) return {{line, Tone::kPlain}};
  return {{line.substr(0, at), Tone::kPlain},
          {word, tone},
          {line.substr(at + word.size()), Tone::kPlain}};
}

std::vector<std::string> Lines(const TableRows& rows, int width,
                               const std::vector<std::string>& dispensable) {
  TableLayout layout;
  layout.width = width;
  return absl::StrSplit(FormatTable(rows, layout, dispensable).value_or(""),
                        '\n', absl::SkipEmpty());
}

// Adds a table beside the jobs: a header and at most `most` rows.
void AddSection(const TableRows& rows,
                const std::vector<std::string>& dispensable, int most,
                int width, std::vector<StyledLine>* lines) {
  if (rows.size() < 2 || most < 1) return;
  const auto texts = Lines(rows, width, dispensable);
  lines->push_back({});
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i == 0) {
      lines->push_back({{texts[i], Tone::kStrong}});
    } else if (static_cast<int>(i) == most && i + 1 < texts.size()) {
      lines->push_back(
          {{absl::StrCat("… ", texts.size() - i, " more"), Tone::kFaint}});
      break;
    } else {
      const std::string& state = rows[i].size() > 3 ? rows[i][3] : "";
      lines->push_back(Highlighted(texts[i], state, ToneOfState(state)));
    }
  }
}

TableRows QueueRows(const std::vector<v1::Queue>& queues) {
  TableRows rows = {{"QUEUE", "RUNNING", "QUEUED", "PROCS", "GUARANTEED"}};
  for (const v1::Queue& queue : queues) {
    rows.push_back({LastSegment(queue.name()),
                    absl::StrCat(queue.running_jobs()),
                    absl::StrCat(queue.queued_jobs()),
                    absl::StrCat(queue.running_processes()),
                    absl::StrCat(queue.guaranteed_processes())});
  }
  return rows;
}

StyledLine Title(const TopState& state, const TopChoice& choice,
                 absl::Time now) {
  int slots = 0, busy = 0;
  for (const v1::WorkerSummary& worker : state.workers) {
    slots += worker.slots();
    busy += worker.busy_slots();
  }
  const auto running =
      std::count_if(state.jobs.begin(), state.jobs.end(),
                    [](const auto& job) { return job.state() == v1::RUNNING; });
  StyledLine line = {{"comera top", Tone::kStrong}};
  if (!state.error.empty()) {
    line.push_back({absl::StrCat("  ", Printable(state.error)), Tone::kBad});
  }
  if (state.time == absl::InfinitePast()) {
    if (state.error.empty()) line.push_back({"  asking ...", Tone::kFaint});
    return line;
  }
  line.push_back(
      {absl::StrCat("  ", running, " running of ", state.total_jobs, " jobs  ",
                    busy, "/", slots, " slots of ", state.workers.size(),
                    " workers  ", "by ", SortName(choice.sort)),
       Tone::kPlain});
  const absl::Duration age = now - state.time;
  if (age > absl::Seconds(2 * choice.interval_s + 2)) {
    line.push_back(
        {absl::StrCat("  as of ", DurationText(age), " ago"), Tone::kWarning});
  }
  line.push_back({absl::StrCat("  ", state.server), Tone::kFaint});
  return line;
}

StyledLine Footer(const TopChoice& choice) {
  if (!choice.cancelling.empty()) {
    return {{absl::StrCat("cancel ", choice.cancelling, "? y: yes, n: no"),
             Tone::kWarning}};
  }
  if (choice.typing_filter) {
    return {{absl::StrCat("filter: ", Printable(choice.filter), "▏"),
             Tone::kStrong}};
  }
  if (!choice.note.empty()) return {{choice.note, Tone::kStrong}};
  std::string keys = choice.details
                         ? "q quit  Esc back  ↑↓ select  c cancel"
                         : "q quit  ↑↓ select  Enter details  s sort  / "
                           "filter  c cancel  r rate";
  if (!choice.filter.empty()) {
    keys = absl::StrCat("[", Printable(choice.filter), "]  ", keys);
  }
  return {{keys, Tone::kFaint}};
}

}  // namespace

std::vector<const v1::Job*> ShownJobs(const TopState& state,
                                      const TopChoice& choice) {
  std::vector<const v1::Job*> jobs;
  for (const v1::Job& job : state.jobs) {
    if (Passes(job, choice.filter)) jobs.push_back(&job);
  }
  const auto by = [&](auto key) {
    std::stable_sort(
        jobs.begin(), jobs.end(),
        [&](const v1::Job* a, const v1::Job* b) { return key(*a) < key(*b); });
  };
  switch (choice.sort) {
    case TopSort::kNewest:
      break;  // keeps the coordinator's order
    case TopSort::kState:
      by([](const v1::Job& job) { return StateText(job); });
      break;
    case TopSort::kProgress:
      by([](const v1::Job& job) { return -ShareOfSteps(job.progress()); });
      break;
    case TopSort::kEta:
      by(EtaSeconds);
      break;
    case TopSort::kName:
      by([](const v1::Job& job) { return job.spec().display_name(); });
      break;
  }
  return jobs;
}

TopAction PressKey(const KeyPress& key, const TopState& state,
                   TopChoice* choice, std::string* cancelled) {
  if (key.key == Key::kNone || key.key == Key::kResize) return TopAction::kNone;
  if (key.key == Key::kClosed) return TopAction::kQuit;
  choice->note.clear();
  if (!choice->cancelling.empty()) {
    const bool yes =
        key.key == Key::kText && (key.text == "y" || key.text == "Y");
    *cancelled = choice->cancelling;
    choice->note = yes ? absl::StrCat("cancelling ", choice->cancelling) : "";
    choice->cancelling.clear();
    return yes ? TopAction::kCancel : TopAction::kNone;
  }
  if (choice->typing_filter) return TypeFilter(key, choice);
  switch (key.key) {
    case Key::kUp:
      Move(state, -1, choice);
      break;
    case Key::kDown:
      Move(state, 1, choice);
      break;
    case Key::kPageUp:
      Move(state, -kPage, choice);
      break;
    case Key::kPageDown:
      Move(state, kPage, choice);
      break;
    case Key::kHome:
      Move(state, -static_cast<int>(state.jobs.size()), choice);
      break;
    case Key::kEnd:
      Move(state, static_cast<int>(state.jobs.size()), choice);
      break;
    case Key::kEnter:
      // The same job stays selected when the order changes.
      Move(state, 0, choice);
      choice->details = !choice->details;
      break;
    case Key::kEscape:
      if (!choice->details) choice->filter.clear();
      choice->details = false;
      break;
    case Key::kText:
      if (key.text.size() == 1) {
        return PressLetter(key.text[0], state, choice);
      }
      break;
    default:
      break;
  }
  return TopAction::kNone;
}

std::vector<StyledLine> TopScreen(const TopState& state,
                                  const TopChoice& choice, absl::Time now,
                                  int width, int height) {
  std::vector<StyledLine> lines = {Title(state, choice, now)};
  std::vector<StyledLine> sections;
  const auto jobs = ShownJobs(state, choice);
  const int selected = IndexOf(jobs, choice.job);
  if (choice.details && !jobs.empty()) {
    for (StyledLine& line : JobDetails(*jobs[selected], now, width)) {
      lines.push_back(std::move(line));
    }
  } else {
    if (height >= kLeastForSections) {
      const int most = std::max(2, height / 5);
      AddSection(WorkerRows(state.workers), WorkerDispensable(), most, width,
                 &sections);
      AddSection(QueueRows(state.queues), {}, std::max(1, most / 2), width,
                 &sections);
    }
    const int room =
        std::max(1, height - 3 - static_cast<int>(sections.size()));
    const int first = std::max(0, selected - room + 1);
    TableRows rows = {JobHeader()};
    for (int i = first; i < std::min<int>(first + room, jobs.size()); ++i) {
      rows.push_back(JobRow(*jobs[i], now));
    }
    const auto texts = Lines(rows, width, JobDispensable());
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i == 0) {
        lines.push_back({{texts[i], Tone::kStrong}});
      } else if (first + static_cast<int>(i) - 1 == selected) {
        // Extends the bar to the edge, so that it is visible on any background.
        const size_t missing =
            std::max<int>(0, width - static_cast<int>(DisplayWidth(texts[i])));
        lines.push_back(
            {{texts[i] + std::string(missing, ' '), Tone::kSelected}});
      } else {
        const std::string& text = rows[i][2];
        lines.push_back(Highlighted(texts[i], text, ToneOfState(text)));
      }
    }
    if (jobs.empty()) {
      lines.push_back({{choice.filter.empty() ? "no job is waiting or running"
                                              : "no job has that in it",
                        Tone::kFaint}});
    }
    lines.insert(lines.end(), sections.begin(), sections.end());
  }
  // The last line belongs to the footer.
  lines.resize(std::max(1, height - 1));
  if (height > 1) lines.push_back(Footer(choice));
  for (StyledLine& line : lines) line = CutLine(line, width);
  return lines;
}

}  // namespace comera::client
