// Walks the words of a command line and lists what may come next.

#include "client/cli/shell/complete.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

// Tells by an argument's name what its values name.
Names NamesOf(const Argument& argument) {
  static const auto* by_name = new std::map<std::string, Names>{
      {"job", Names::kJob},
      {"sweep", Names::kSweep},
      {"model", Names::kModel},
      {"worker", Names::kWorker},
      {"queue", Names::kQueue},
      {"dataset", Names::kDataset},
      {"file", Names::kFile},
      {"--queue", Names::kQueue},
      {"--sweep", Names::kSweep},
      {"--worker", Names::kWorker},
      {"--forget", Names::kWorker},
      {"--ca", Names::kFile},
      {"--cert", Names::kFile},
      {"--key", Names::kFile},
      {"--token-file", Names::kFile},
      {"--input", Names::kFile},
      {"--out", Names::kFile},
      {"--status-file", Names::kFile},
      {"--svg", Names::kFile},
      {"--server-binary", Names::kFile},
      {"--worker-binary", Names::kFile},
      {"--trainer-binary", Names::kFile},
      {"--data-dir", Names::kFolder},
      {"--model-dir", Names::kFolder},
      {"--model-cache", Names::kFolder},
      {"--download", Names::kFolder},
      {"--to", Names::kFolder},
      {"--man", Names::kFolder},
  };
  if (argument.names != Names::kByName) return argument.names;
  const auto found = by_name->find(argument.name);
  return found == by_name->end() ? Names::kNothing : found->second;
}

// Splits "-f,--follow" into "-f" and "--follow".
std::vector<std::string> Spellings(const Argument& argument) {
  return absl::StrSplit(argument.name, ',');
}

bool TakesValue(const Argument& argument) {
  return argument.is_flag() && !std::holds_alternative<bool*>(argument.target);
}

bool IsRepeatable(const Argument& argument) {
  return std::holds_alternative<std::vector<std::string>*>(argument.target);
}

void Store(const Argument& argument, const std::string& value) {
  if (auto* const* text = std::get_if<std::string*>(&argument.target)) {
    **text = value;
  } else if (auto* const* flag = std::get_if<bool*>(&argument.target)) {
    **flag = true;
  }
}

class Completer {
 public:
  Completer(const std::vector<Verb>& verbs,
            const std::vector<Argument>& globals, const NameSource& names)
      : verbs_(verbs), globals_(globals), names_(names) {}

  Completion Run(const std::vector<std::string>& words) {
    for (size_t i = 0; i + 1 < words.size(); ++i) Consume(words[i]);
    const std::string current = words.empty() ? "" : words.back();
    if (pending_ != nullptr) {
      Values(*pending_, /*prefix=*/"", current);
    } else if (absl::StartsWith(current, "--") &&
               absl::StrContains(current, "=")) {
      const size_t equals = current.find('=');
      const Argument* flag = FindFlag(current.substr(0, equals));
      if (flag != nullptr && TakesValue(*flag)) {
        Values(*flag, current.substr(0, equals + 1),
               current.substr(equals + 1));
      }
    } else if (absl::StartsWith(current, "-")) {
      Flags(current);
    } else if (verb_ == nullptr) {
      if (!lost_) Verbs(current);
    } else if (const Argument* argument = NextPositional()) {
      Values(*argument, "", current);
    }
    return std::move(completion_);
  }

 private:
  // Processes a word that is complete.
  void Consume(const std::string& word) {
    if (pending_ != nullptr) {
      if (IsGlobal(pending_)) Store(*pending_, word);
      pending_ = nullptr;
    } else if (word.size() > 1 && word[0] == '-') {
      const size_t equals = word.find('=');
      const Argument* flag = FindFlag(word.substr(0, equals));
      if (flag == nullptr) return;
      given_.push_back(flag);
      if (!TakesValue(*flag)) return;
      if (equals == std::string::npos) {
        pending_ = flag;
      } else if (IsGlobal(flag)) {
        Store(*flag, word.substr(equals + 1));
      }
    } else if (verb_ == nullptr) {
      for (const Verb& verb : verbs_) {
        if (verb.name == word) verb_ = &verb;
      }
      lost_ = lost_ || verb_ == nullptr;
    } else {
      ++positionals_;
    }
  }

  bool IsGlobal(const Argument* argument) const {
    return !globals_.empty() && argument >= &globals_.front() &&
           argument <= &globals_.back();
  }

  const Argument* FindFlag(const std::string& name) const {
    const auto find =
        [&](const std::vector<Argument>& arguments) -> const Argument* {
      for (const Argument& argument : arguments) {
        if (!argument.is_flag()) continue;
        for (const std::string& spelling : Spellings(argument)) {
          if (spelling == name) return &argument;
        }
      }
      return nullptr;
    };
    const Argument* own = verb_ == nullptr ? nullptr : find(verb_->arguments);
    return own != nullptr ? own : find(globals_);
  }

  const Argument* NextPositional() const {
    int index = 0;
    for (const Argument& argument : verb_->arguments) {
      if (argument.is_flag()) continue;
      if (index++ == positionals_ || IsRepeatable(argument)) return &argument;
    }
    return nullptr;
  }

  void Offer(const std::string& prefix, const std::string& typed,
             const std::string& word, const std::string& description) {
    if (!absl::StartsWith(word, typed)) return;
    // A name from the server with a line break would become two candidates.
    completion_.candidates.push_back(
        {Printable(prefix + word), Printable(description)});
  }

  void Verbs(const std::string& typed) {
    for (const Verb& verb : verbs_)
      Offer("", typed, verb.name, FirstLine(verb.help));
  }

  void Flags(const std::string& typed) {
    const auto offer = [&](const std::vector<Argument>& arguments) {
      for (const Argument& argument : arguments) {
        if (!argument.is_flag()) continue;
        bool given = false;
        for (const Argument* one : given_) given = given || one == &argument;
        if (given && !IsRepeatable(argument)) continue;
        for (const std::string& spelling : Spellings(argument)) {
          Offer("", typed, spelling, FirstLine(argument.help));
        }
      }
    };
    if (verb_ != nullptr) offer(verb_->arguments);
    offer(globals_);
    Offer("", typed, "--help", "Print this help message and exit");
  }

  void Values(const Argument& argument, const std::string& prefix,
              const std::string& typed) {
    for (const std::string& choice : argument.choices) {
      Offer(prefix, typed, choice, "");
    }
    for (const std::string& word : argument.suggestions) {
      Offer(prefix, typed, word, "");
    }
    const Names names = NamesOf(argument);
    switch (names) {
      case Names::kByName:
      case Names::kNothing:
        return;
      case Names::kFile:
        completion_.files = true;
        return;
      case Names::kFolder:
        completion_.folders = true;
        return;
      case Names::kVerb:
        Verbs(typed);
        return;
      case Names::kModel:
        // A model can also be given as the folder that holds it.
        completion_.folders = true;
        break;
      default:
        break;
    }
    for (const Candidate& name :
         names_(names, verb_ == nullptr ? "" : verb_->name)) {
      // Both `abc` and `jobs/abc` may be typed.
      const size_t slash = name.word.rfind('/');
      const bool whole = absl::StrContains(typed, "/") ||
                         names == Names::kJobOrSweep ||
                         names == Names::kModel || slash == std::string::npos;
      Offer(prefix, typed, whole ? name.word : name.word.substr(slash + 1),
            name.description);
    }
  }

  static std::string FirstLine(const std::string& text) {
    return text.substr(0, text.find('\n'));
  }

  const std::vector<Verb>& verbs_;
  const std::vector<Argument>& globals_;
  const NameSource& names_;
  const Verb* verb_ = nullptr;
  // The flag whose value comes next.
  const Argument* pending_ = nullptr;
  std::vector<const Argument*> given_;
  int positionals_ = 0;
  // Whether the first word is not a verb.
  bool lost_ = false;
  Completion completion_;
};

}  // namespace

Completion Complete(const std::vector<Verb>& verbs,
                    const std::vector<Argument>& globals,
                    const std::vector<std::string>& words,
                    const NameSource& names) {
  return Completer(verbs, globals, names).Run(words);
}

std::string CompletionText(const Completion& completion) {
  std::string text = completion.files     ? "files\n"
                     : completion.folders ? "folders\n"
                                          : "words\n";
  for (const Candidate& candidate : completion.candidates) {
    absl::StrAppend(&text, candidate.word);
    if (!candidate.description.empty()) {
      absl::StrAppend(&text, "\t", candidate.description);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace comera::client
