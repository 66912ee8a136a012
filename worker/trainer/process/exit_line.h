// The last line that a member writes to its events.
#ifndef COMERA_WORKER_TRAINER_PROCESS_EXIT_LINE_H_
#define COMERA_WORKER_TRAINER_PROCESS_EXIT_LINE_H_

namespace comera::trainer {

// Precedes the exit code, in decimal. A worker that is not the member's parent,
// because it was restarted, learns of no exit status otherwise.
inline constexpr char kExitLine[] = "exit ";

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_EXIT_LINE_H_
