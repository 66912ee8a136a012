#include "server/postgres_job_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "server/event_retention.h"
#include "server/postgres_arrays.h"
#include "server/postgres_schema.h"

namespace comera::server {
namespace {

// A follower that was away for longer loads everything anew.
constexpr int64_t kRememberDeletions = 1000000;

std::string Bytes(const pqxx::field& field) {
  return pqxx::binarystring(field).str();
}

template <typename Message>
bool ParseField(const pqxx::field& field, Message* message) {
  const pqxx::binarystring bytes(field);
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

absl::Status ReadRecords(const pqxx::result& rows,
                         std::vector<JobRecord>* records) {
  for (const pqxx::row& row : rows) {
    JobRecord& record = records->emplace_back();
    if (!ParseField(row[1], &record) ||
        record.job().name() != row[0].as<std::string>()) {
      return absl::DataLossError(absl::StrCat(
          "the record of ", row[0].as<std::string>(), " is damaged"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresJobStore>> PostgresJobStore::Open(
    const std::string& url, const Options& options) {
  RETURN_IF_ERROR(CheckPostgresUrl(url));
  std::unique_ptr<PostgresJobStore> store(new PostgresJobStore(url, options));
  RETURN_IF_ERROR(MigratePostgres(&store->connection_, NewestPostgresSchema()));
  return store;
}

absl::StatusOr<std::vector<JobRecord>> PostgresJobStore::LoadJobs() {
  std::vector<JobRecord> records;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    return ReadRecords(
        read.exec("SELECT name, record FROM jobs ORDER BY serial"), &records);
  }));
  return records;
}

absl::StatusOr<StoreChanges> PostgresJobStore::ReadChanges(int64_t after) {
  StoreChanges changes;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    changes.change =
        read.exec1("SELECT change FROM coordinator")[0].as<int64_t>();
    if (changes.change == after) return absl::OkStatus();
    for (const pqxx::row& row : read.exec_params(
             "SELECT name FROM deleted_jobs WHERE change > $1", after)) {
      changes.deleted_jobs.push_back(row[0].as<std::string>());
    }
    return ReadRecords(
        read.exec_params("SELECT name, record FROM jobs WHERE change > $1",
                         after),
        &changes.records);
  }));
  return changes;
}

absl::Status PostgresJobStore::Commit(const StoreBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  if (options_.epoch == 0) {
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
      options_.epoch);
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

absl::StatusOr<std::vector<v1::JobEvent>> PostgresJobStore::ReadEvents(
    const std::string& job, int64_t after, int64_t last, int limit) {
  std::vector<v1::JobEvent> events;
  RETURN_IF_ERROR(
      connection_.Read([&](pqxx::transaction_base& read) -> absl::Status {
        for (const pqxx::row& row : read.exec_params(
                 "SELECT event FROM events WHERE job = $1 AND sequence > $2 "
                 "AND sequence <= $3 ORDER BY sequence LIMIT $4",
                 job, after, last, limit)) {
          if (!ParseField(row[0], &events.emplace_back())) {
            return absl::DataLossError(
                absl::StrCat("an event of ", job, " is damaged"));
          }
        }
        return absl::OkStatus();
      }));
  return events;
}

absl::StatusOr<std::vector<Document>> PostgresJobStore::LoadDocuments(
    const std::string& kind) {
  std::vector<Document> documents;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    for (const pqxx::row& row : read.exec_params(
             "SELECT kind, name, body FROM documents WHERE kind = $1 OR "
             "$1 = '' ORDER BY kind, name",
             kind)) {
      documents.push_back(
          {row[0].as<std::string>(), Bytes(row[1]), Bytes(row[2])});
    }
    return absl::OkStatus();
  }));
  return documents;
}

absl::StatusOr<std::vector<AuditRow>> PostgresJobStore::ReadAudit(
    int64_t before, int limit) {
  std::vector<AuditRow> rows;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    for (const pqxx::row& row : read.exec_params(
             "SELECT id, time_micros, entry FROM audit WHERE id < $1 OR $1 = 0 "
             "ORDER BY id DESC LIMIT $2",
             before, limit)) {
      rows.push_back({row[0].as<int64_t>(),
                      absl::FromUnixMicros(row[1].as<int64_t>()),
                      Bytes(row[2])});
    }
    return absl::OkStatus();
  }));
  return rows;
}

}  // namespace comera::server
