// A job's events as TensorBoard's.
#ifndef COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_
#define COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_

#include <string>
#include <vector>

#include "client/export/event.pb.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// What stands first: the version of the format, `job_file` as text, and the
// specification as hyper-parameters.
std::vector<tensorboard::Event> BeginningOf(const v1::Job& job,
                                            const std::string& job_file);

// One event: scalars of metrics and results, histograms of ranks (each layer's
// over its bonds, and each bond as a scalar), Pareto points, incidents as text.
// An attempt that resumes from a checkpoint makes void what came after that.
std::vector<tensorboard::Event> EventsOf(const v1::JobEvent& event);

// Once the job has ended: how.
std::vector<tensorboard::Event> EndOf(const v1::Job& job);

// One bucket per whole number between the smallest and largest value, wider
// ones beyond 64.
tensorboard::HistogramProto HistogramOf(const std::vector<double>& values);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_
