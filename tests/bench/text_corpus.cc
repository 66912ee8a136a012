// Reads random training batches of token shards, from disk or from memory, and
// prints as JSON how fast that is and how much memory the process has:
//   text_corpus --shards=FOLDER --from=shards|memory [--length=1024]
//     [--batch=16] [--seconds=5]
// For `memory` the documents are loaded first, at most 2^30 tokens of them.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/causal_data.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxLoadedTokens = int64_t{1} << 30;

struct Arguments {
  std::string shards;
  std::string from = "shards";
  int32_t length = 1024;
  int64_t batch = 16;
  double seconds = 5;
};

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The first documents of a set, in memory.
absl::StatusOr<DocumentParts> Load(const Documents& shards,
                                   int32_t vocabulary_size) {
  auto sets = std::make_shared<DocumentSets>();
  sets->train = DocumentSet(vocabulary_size);
  std::vector<int64_t> ends;
  std::vector<int32_t> tokens;
  const int64_t all = std::min(shards.tokens(), kMaxLoadedTokens);
  int64_t begin = 0;
  while (begin < all) {
    RETURN_IF_ERROR(shards.CopyEnds(
        begin, std::min<int64_t>(1 << 20, shards.tokens() - begin), &ends));
    for (const int64_t end : ends) {
      tokens.resize(static_cast<size_t>(end - begin));
      RETURN_IF_ERROR(shards.CopyTokens(begin, end - begin, tokens.data()));
      RETURN_IF_ERROR(sets->train.Add(tokens, 0));
      begin = end;
    }
  }
  sets->validation = sets->train;
  return PartsOf(sets);
}

absl::Status Run(const Arguments& arguments) {
  FileCache none("", nullptr);
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(auto set, ShardSet::Open(arguments.shards, &none, {}));
  ASSIGN_OR_RETURN(auto tokenizer, LoadSavedTokenizer(set->tokenizer_folder()));
  const double open_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  DocumentParts parts;
  parts.train = parts.validation = WholeShards(set);
  if (arguments.from == "memory") {
    ASSIGN_OR_RETURN(parts, Load(*parts.train, tokenizer->vocabulary_size()));
  }
  CausalData::Options options;
  options.length = arguments.length;
  const CausalData data(options, parts,
                        std::shared_ptr<const Tokenizer>(std::move(tokenizer)));
  Batch batch;
  int64_t steps = 0;
  // The first second warms up.
  for (const absl::Time end = absl::Now() + absl::Seconds(1); absl::Now() < end;
       ++steps) {
    RETURN_IF_ERROR(data.TrainBatch(steps, arguments.batch, 0, 1, &batch));
  }
  const int64_t first = steps;
  const absl::Time begin = absl::Now();
  while (absl::Now() - begin < absl::Seconds(arguments.seconds)) {
    for (int i = 0; i < 16; ++i, ++steps) {
      RETURN_IF_ERROR(data.TrainBatch(steps, arguments.batch, 0, 1, &batch));
    }
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << JsonText(nlohmann::ordered_json{
                   {"from", arguments.from},
                   {"corpus_tokens", set->index().tokens},
                   {"open_seconds", open_seconds},
                   {"tokens_per_second",
                    static_cast<double>((steps - first) * arguments.batch *
                                        arguments.length) /
                        seconds},
                   {"resident_bytes", ResidentBytes()},
                   {"peak_bytes", int64_t{1024} * usage.ru_maxrss}})
            << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::trainer

int main(int argc, char** argv) {
  comera::trainer::Arguments arguments;
  CLI::App app{"Measures how fast batches of token shards are read."};
  app.add_option("--shards", arguments.shards, "Folder")->required();
  app.add_option("--from", arguments.from, "shards or memory")
      ->check(CLI::IsMember({"shards", "memory"}));
  app.add_option("--length", arguments.length, "Tokens of a row")
      ->check(CLI::Range(1, 65535));
  app.add_option("--batch", arguments.batch, "Rows")
      ->check(CLI::Range(1, 4096));
  app.add_option("--seconds", arguments.seconds, "How long to read");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::trainer::Run(arguments);
  if (status.ok()) return 0;
  std::cerr << "text_corpus: " << status.message() << std::endl;
  return 1;
}
