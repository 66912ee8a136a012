#ifndef COMERA_SERVER_WEBHOOK_STATE_NOTE_H_
#define COMERA_SERVER_WEBHOOK_STATE_NOTE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::server {

// What the receiver of a webhook is told of one change of a job's state.
struct StateNote {
  // Unique, e.g. "jobs/a/000000000017": the job and the event's sequence.
  std::string id;
  // The message, JSON in UTF-8 in the form of the Standard Webhooks
  // specification: `type`, `timestamp` and `data`.
  std::string body;
  // The job's user.
  std::string user;
};

// Returns the id of the note of an event.
std::string NoteId(const v1::JobEvent& event);

// Returns the note of an event that is a change of state. Of the job it tells
// what does not change, so it may be the job as it was later.
StateNote MakeNote(const v1::JobEvent& event, const v1::Job& job);

// Returns the time of the change that a note tells of; InfinitePast: the body
// is none of MakeNote.
absl::Time TimeOfNote(const StateNote& note);

// Returns the user that the body names; empty: the body is none of MakeNote.
std::string UserOfNote(const StateNote& note);

// Returns the header webhook-signature of a note that is sent `seconds` after
// 1970: "v1," and the base64 of HMAC-SHA256 over the id, the time and the body
// with dots between (Standard Webhooks, "Signature scheme").
std::string SignNote(const std::string& key, const StateNote& note,
                     int64_t seconds);

}  // namespace comera::server

#endif  // COMERA_SERVER_WEBHOOK_STATE_NOTE_H_
