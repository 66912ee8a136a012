// Upper bounds of the histograms' buckets, in seconds.
#ifndef COMERA_SERVER_METRICS_BUCKETS_H_
#define COMERA_SERVER_METRICS_BUCKETS_H_

#include "prometheus/histogram.h"

namespace comera::server {

// Calls and commits: from 0.5 ms to the 30 s that some calls are held.
inline prometheus::Histogram::BucketBoundaries CallBuckets() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
          0.1,    0.25,  0.5,    1,     2.5,  10,    30};
}

// Scheduling passes: 20 ms is the target for 10,000 jobs.
inline prometheus::Histogram::BucketBoundaries PassBuckets() {
  return {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1};
}

// Jobs that wait: from a second to a week.
inline prometheus::Histogram::BucketBoundaries WaitBuckets() {
  return {1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600};
}

}  // namespace comera::server

#endif  // COMERA_SERVER_METRICS_BUCKETS_H_
