// Converts a job's events into TensorBoard's.
#ifndef COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_
#define COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_

#include <string>
#include <vector>

#include "client/export/event.pb.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// The first events of a file: the version of the format, `job_file` as text,
// and the specification as hyper-parameters.
std::vector<tensorboard::Event> BeginningOf(const v1::Job& job,
                                            const std::string& job_file);

// Converts one event: metrics and results become scalars; ranks become
// histograms per layer and scalars per bond; Pareto points scalars; incidents
// text. When an attempt resumes from a checkpoint, TensorBoard is told to
// discard what came after it.
std::vector<tensorboard::Event> EventsOf(const v1::JobEvent& event);

// The last events, which say how the job ended.
std::vector<tensorboard::Event> EndOf(const v1::Job& job);

// Has one bucket per whole number between the smallest and largest value, or
// wider ones if that would be more than 64.
tensorboard::HistogramProto HistogramOf(const std::vector<double>& values);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_TENSORBOARD_EVENTS_H_
