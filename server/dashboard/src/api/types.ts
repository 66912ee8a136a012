// The messages of comera.v1 that the pages read, as protobuf's JSON has them:
// 64-bit integers are strings, times are RFC 3339, durations end in "s", and
// fields at their default are absent. The build makes schema.ts, which holds
// all of them, from the coordinator's /openapi.json.
export type {
  Artifact,
  Checkpoint,
  Dataset,
  DatasetDescription,
  Failure,
  Forecast,
  GenerateResponse,
  Job,
  JobEvent,
  JobExplanation,
  JobProgress,
  JobSeries,
  JobSpec,
  JobState,
  ListJobsResponse,
  Model,
  Outcome,
  ParetoPoint,
  Queue,
  RankSnapshot,
  ReadLogResponse,
  RunInfo,
  StepMetrics,
  Sweep,
  SweepRun,
  TrainingResult,
  WatchJobResponse,
  WatchSweepResponse,
  WhoAmIResponse,
  WorkerSummary,
} from './schema';

/** A 64-bit integer, whatever of JSON's two ways it is written in. */
export type Int64 = string | number;

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json | undefined;
}
