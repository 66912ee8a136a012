// The lease row that several coordinators on one database share.
#ifndef COMERA_SERVER_STORE_LEASE_STORE_H_
#define COMERA_SERVER_STORE_LEASE_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::server {

// The last leadership, as the database tells of it.
struct LeaseRow {
  // 0: there never was one.
  int64_t term = 0;
  // Where the leader accepts calls, as it said itself. It may be gone by now.
  std::string address;
  // Shown by those who pass calls on to the leader.
  std::string secret;
  // Rises with every lease and every renewal.
  int64_t renewals = 0;
  // How long the last renewal was for.
  absl::Duration length;
  // By the database's clock: the lease has run out, or was given back.
  bool expired = true;
};

// Reads and writes the lease row, each call in one transaction with a deadline.
// Not thread-safe. Errors of all methods: Unavailable.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;

  virtual absl::StatusOr<LeaseRow> Read() = 0;
  // Begins a leadership unless the row has changed since it was read; returns
  // its term, which is higher than all before, or 0. Waits for the commit that
  // the leader before may have under way. Unless `row` had expired, only
  // `although_unexpired` takes it.
  virtual absl::StatusOr<int64_t> Take(const LeaseRow& row,
                                       const std::string& address,
                                       const std::string& secret,
                                       absl::Duration length,
                                       bool although_unexpired) = 0;
  // Extends the lease of that leadership to `length` from now. False: there is
  // a newer one.
  virtual absl::StatusOr<bool> Renew(int64_t term, absl::Duration length) = 0;
  // Ends the lease of that leadership now.
  virtual absl::Status GiveBack(int64_t term) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_LEASE_STORE_H_
