// Keeps jobs, events and documents in PostgreSQL.
#include "server/store/postgres_job_store.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "server/store/event_retention.h"
#include "server/store/postgres_arrays.h"
#include "server/store/postgres_schema.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/store_copy.h"

namespace comera::server {
namespace {

// A follower that was away for longer loads everything anew.
constexpr int64_t kRememberDeletions = 1000000;
// The time that reading all jobs may take.
constexpr absl::Duration kLoad = absl::Minutes(2);

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresJobStore>> PostgresJobStore::Open(
    const std::string& url, const Options& options) {
  RETURN_IF_ERROR(CheckPostgresUrl(url));
  std::unique_ptr<PostgresJobStore> store(new PostgresJobStore(url, options));
  RETURN_IF_ERROR(MigratePostgres(&store->connection_, NewestPostgresSchema()));
  return store;
}

template <typename T>
absl::StatusOr<T> PostgresJobStore::ReadWith(
    const std::function<absl::StatusOr<T>(PostgresReader&)>& read,
    absl::Duration timeout) {
  absl::StatusOr<T> result;
  RETURN_IF_ERROR(
      connection_.Read(timeout, [&](pqxx::transaction_base& transaction) {
        PostgresReader reader(&transaction);
        result = read(reader);
        return absl::OkStatus();
      }));
  return result;
}

absl::StatusOr<std::vector<JobRecord>> PostgresJobStore::LoadJobs() {
  return ReadWith<std::vector<JobRecord>>(
      [](PostgresReader& reader) { return reader.LoadJobs(); }, kLoad);
}

absl::StatusOr<std::vector<v1::JobEvent>> PostgresJobStore::ReadEvents(
    const std::string& job, int64_t after, int64_t last, int limit) {
  return ReadWith<std::vector<v1::JobEvent>>([&](PostgresReader& reader) {
    return reader.ReadEvents(job, after, last, limit);
  });
}

absl::StatusOr<std::vector<Document>> PostgresJobStore::LoadDocuments(
    const std::string& kind) {
  return ReadWith<std::vector<Document>>(
      [&](PostgresReader& reader) { return reader.LoadDocuments(kind); });
}

absl::StatusOr<std::vector<AuditRow>> PostgresJobStore::ReadAudit(
    int64_t before, int limit) {
  return ReadWith<std::vector<AuditRow>>(
      [&](PostgresReader& reader) { return reader.ReadAudit(before, limit); });
}

absl::StatusOr<StoreChanges> PostgresJobStore::ReadChanges(int64_t after) {
  StoreChanges changes;
  RETURN_IF_ERROR(connection_.Read(
      after == 0 ? kLoad : options_.connection.timeout,
      [&](pqxx::transaction_base& read) -> absl::Status {
        changes.change =
            read.exec1("SELECT change FROM coordinator")[0].as<int64_t>();
        if (changes.change == after) return absl::OkStatus();
        for (const pqxx::row& row : read.exec_params(
                 "SELECT name FROM deleted_jobs WHERE change > $1", after)) {
          changes.deleted_jobs.push_back(row[0].as<std::string>());
        }
        ASSIGN_OR_RETURN(changes.records,
                         PostgresReader(&read).LoadChangedJobs(after));
        return absl::OkStatus();
      }));
  return changes;
}

absl::Status PostgresJobStore::Fill(StoreReader* from) {
  const absl::Status status = connection_.Transact(
      PostgresConnection::kLong, [&](pqxx::work& work) -> absl::Status {
        if (work.exec1("SELECT EXISTS (SELECT FROM jobs)")[0].as<bool>()) {
          return absl::AlreadyExistsError("the database has jobs");
        }
        return CopyStore(
            from, [&](const StoreBatch& batch) { return Apply(batch, work); });
      });
  counts_.clear();
  return status;
}

absl::Status PostgresJobStore::Backup(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  }
  // A session of its own, and one transaction: one state of everything.
  PostgresConnection connection(url_, options_.connection);
  const absl::Status status = connection.Read(
      PostgresConnection::kLong,
      [&](pqxx::transaction_base& read) -> absl::Status {
        SqliteJobStore::Options options;
        options.max_samples = options_.max_samples;
        ASSIGN_OR_RETURN(const auto copy, SqliteJobStore::Open(path, options));
        PostgresReader reader(&read);
        return CopyStore(&reader, copy.get());
      });
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::StatusOr<int64_t> PostgresJobStore::SizeBytes() {
  int64_t bytes = 0;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    bytes = read.exec1("SELECT pg_database_size(current_database())")[0]
                .as<int64_t>();
    return absl::OkStatus();
  }));
  return bytes;
}

absl::Status PostgresJobStore::Commit(const StoreBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  if (options_.term == 0) {
    return absl::FailedPreconditionError(
        "this coordinator does not lead: it only reads");
  }
  absl::Status status = connection_.Transact(
      [&](pqxx::work& work) { return Apply(batch, work); });
  if (!status.ok()) counts_.clear();
  return status;
}

absl::Status PostgresJobStore::Apply(const StoreBatch& batch,
                                     pqxx::work& work) {
  // Holds the row until the end: a new leader waits for this transaction, and
  // this one sees whether there is a new leader.
  const pqxx::result fence = work.exec_params(
      "UPDATE coordinator SET change = change + 1 WHERE epoch = $1 "
      "RETURNING change",
      options_.term);
  if (fence.empty()) {
    return absl::FailedPreconditionError(
        "another coordinator leads: nothing was written");
  }
  const int64_t change = fence[0][0].as<int64_t>();
  PutRecords(batch.records, change, work);
  RETURN_IF_ERROR(PutEvents(batch.events, work));
  PutDocuments(batch.documents, work);
  PutAudit(batch.audit, work);
  DeleteJobs(batch.deleted_jobs, change, work);
  return absl::OkStatus();
}

void PostgresJobStore::PutRecords(const std::vector<JobRecord>& records,
                                  int64_t change, pqxx::work& work) {
  if (records.empty()) return;
  // One statement cannot write a row twice: the last record counts.
  std::map<std::string, const JobRecord*> last;
  for (const JobRecord& record : records) last[record.job().name()] = &record;
  PostgresArray names, serials, states, requests, bodies;
  for (const auto& [name, record] : last) {
    names.AddText(name);
    serials.AddNumber(record->serial());
    states.AddNumber(record->job().state());
    if (record->job().request_id().empty()) {
      requests.AddNull();
    } else {
      requests.AddText(record->job().request_id());
    }
    bodies.AddBytes(record->SerializeAsString());
    if (IsFinal(record->job().state())) counts_.erase(name);
  }
  work.exec_params0(
      "INSERT INTO jobs (name, serial, state, request_id, record, change) "
      "SELECT *, $6::bigint FROM unnest($1::text[], $2::bigint[], "
      "$3::integer[], $4::text[], $5::bytea[]) "
      "ON CONFLICT (name) DO UPDATE SET state = excluded.state, "
      "record = excluded.record, change = excluded.change",
      names.literal(), serials.literal(), states.literal(), requests.literal(),
      bodies.literal(), change);
}

absl::Status PostgresJobStore::PutEvents(
    const std::vector<v1::JobEvent>& events, pqxx::work& work) {
  if (events.empty()) return absl::OkStatus();
  PostgresArray jobs, sequences, series, bodies;
  // Jobs with samples; true: to be counted first.
  std::map<std::string, bool> sampled;
  for (const v1::JobEvent& event : events) {
    jobs.AddText(event.job());
    sequences.AddNumber(event.sequence());
    const int number = SampleSeries(event);
    series.AddNumber(number);
    bodies.AddBytes(event.SerializeAsString());
    if (number == 0) continue;
    const bool known = counts_.count(event.job()) > 0;
    if (sampled.emplace(event.job(), !known).first->second) continue;
    ++counts_[event.job()][number];
  }
  work.exec_params0(
      "INSERT INTO events (job, sequence, series, event) SELECT * FROM "
      "unnest($1::text[], $2::bigint[], $3::integer[], $4::bytea[]) "
      "ON CONFLICT DO NOTHING",
      jobs.literal(), sequences.literal(), series.literal(), bodies.literal());
  CountSamples(sampled, work);
  for (const auto& [job, counted] : sampled) {
    // Thin() changes the counts.
    const std::map<int, int> counts = counts_[job];
    for (const auto& [number, count] : counts) {
      if (count > options_.max_samples) Thin(job, number, work);
    }
  }
  return absl::OkStatus();
}

void PostgresJobStore::CountSamples(const std::map<std::string, bool>& jobs,
                                    pqxx::work& work) {
  PostgresArray unknown;
  for (const auto& [job, to_count] : jobs) {
    if (to_count) unknown.AddText(job);
  }
  if (unknown.empty()) return;
  for (const pqxx::row& row : work.exec_params(
           "SELECT job, series, count(*) FROM events WHERE series <> 0 AND "
           "job = ANY ($1::text[]) GROUP BY job, series",
           unknown.literal())) {
    counts_[row[0].as<std::string>()][row[1].as<int>()] = row[2].as<int>();
  }
}

void PostgresJobStore::Thin(const std::string& job, int series,
                            pqxx::work& work) {
  std::vector<int64_t> all;
  for (const pqxx::row& row : work.exec_params(
           "SELECT sequence FROM events WHERE job = $1 AND series = $2 AND "
           "series <> 0 ORDER BY sequence",
           job, series)) {
    all.push_back(row[0].as<int64_t>());
  }
  const std::vector<int64_t> doomed = ThinSeries(all, options_.max_samples / 2);
  PostgresArray sequences;
  for (int64_t sequence : doomed) sequences.AddNumber(sequence);
  work.exec_params0(
      "DELETE FROM events WHERE job = $1 AND sequence = ANY ($2::bigint[])",
      job, sequences.literal());
  counts_[job][series] = static_cast<int>(all.size() - doomed.size());
}

void PostgresJobStore::PutDocuments(const std::vector<Document>& documents,
                                    pqxx::work& work) {
  std::map<std::pair<std::string, std::string>, const Document*> last;
  for (const Document& document : documents) {
    last[{document.kind, document.name}] = &document;
  }
  PostgresArray kinds, names, bodies, doomed_kinds, doomed_names;
  for (const auto& [key, document] : last) {
    const bool put = document->body.has_value();
    (put ? kinds : doomed_kinds).AddText(key.first);
    (put ? names : doomed_names).AddBytes(key.second);
    if (put) bodies.AddBytes(*document->body);
  }
  if (!doomed_kinds.empty()) {
    work.exec_params0(
        "DELETE FROM documents USING unnest($1::text[], $2::bytea[]) "
        "AS doomed (kind, name) WHERE documents.kind = doomed.kind AND "
        "documents.name = doomed.name",
        doomed_kinds.literal(), doomed_names.literal());
  }
  if (!kinds.empty()) {
    work.exec_params0(
        "INSERT INTO documents (kind, name, body) SELECT * FROM "
        "unnest($1::text[], $2::bytea[], $3::bytea[]) "
        "ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body",
        kinds.literal(), names.literal(), bodies.literal());
  }
}

void PostgresJobStore::PutAudit(const std::vector<AuditRow>& rows,
                                pqxx::work& work) {
  if (rows.empty()) return;
  PostgresArray times, entries;
  for (const AuditRow& row : rows) {
    times.AddNumber(absl::ToUnixMicros(row.time));
    entries.AddBytes(row.entry);
  }
  // In the batch's order, which ids then follow.
  work.exec_params0(
      "INSERT INTO audit (time_micros, entry) SELECT time_micros, entry FROM "
      "unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY "
      "AS rows (time_micros, entry, place) ORDER BY place",
      times.literal(), entries.literal());
}

void PostgresJobStore::DeleteJobs(const std::vector<std::string>& names,
                                  int64_t change, pqxx::work& work) {
  if (names.empty()) return;
  PostgresArray doomed;
  for (const std::string& name : names) {
    doomed.AddText(name);
    counts_.erase(name);
  }
  work.exec_params0("DELETE FROM jobs WHERE name = ANY ($1::text[])",
                    doomed.literal());
  work.exec_params0("DELETE FROM events WHERE job = ANY ($1::text[])",
                    doomed.literal());
  work.exec_params0(
      "INSERT INTO deleted_jobs (name, change) SELECT unnest($1::text[]), $2",
      doomed.literal(), change);
  work.exec_params0("DELETE FROM deleted_jobs WHERE change < $1",
                    change - kRememberDeletions);
}

}  // namespace comera::server
