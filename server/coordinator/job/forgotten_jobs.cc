// Remembers the names of deleted jobs, as one small document each.
#include "server/coordinator/job/forgotten_jobs.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace comera::server {

void ForgottenJobs::Load(const std::vector<Document>& documents) {
  for (const Document& document : documents) {
    int64_t number = 0;
    if (!document.body || !absl::SimpleAtoi(*document.body, &number) ||
        number < 1 || !jobs_.emplace(number, document.name).second) {
      continue;
    }
    numbers_[document.name] = number;
  }
}

void ForgottenJobs::Add(const std::string& job,
                        std::vector<Document>* documents) {
  if (Contains(job)) return;
  const int64_t number = jobs_.empty() ? 1 : jobs_.rbegin()->first + 1;
  jobs_[number] = job;
  numbers_[job] = number;
  documents->push_back({kDocumentKind, job, absl::StrCat(number)});
  while (jobs_.size() > most_) {
    const std::string earliest = jobs_.begin()->second;
    jobs_.erase(jobs_.begin());
    numbers_.erase(earliest);
    documents->push_back({kDocumentKind, earliest, std::nullopt});
  }
}

}  // namespace comera::server
