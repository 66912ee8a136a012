#ifndef COMERA_SERVER_DAEMON_NO_ANSWER_H_
#define COMERA_SERVER_DAEMON_NO_ANSWER_H_

namespace comera::server {

// The trailing metadata with which a coordinator that does not lead, or no
// longer leads, tells one that has passed a call on that the error is no
// leader's answer. It does not reach the caller.
inline constexpr char kNoAnswerMetadata[] = "comera-no-answer";
// Nothing of the call was done.
inline constexpr char kNotBegun[] = "not-begun";
// The call may have been carried out, but its answer came too late.
inline constexpr char kWithheld[] = "withheld";

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_NO_ANSWER_H_
