// Package telemetry is what an operator sees of the gateway from outside: the
// access log, the metrics, the admin pages, the process log, and the ids that
// tie one request's traces together.
//
// What the hot path calls (AccessLog.Request, RequestSeries.Observe,
// AppendRequestID, ParseTraceparent) allocates nothing, waits for nobody and
// knows nothing of what is measured beyond names: callers fill plain values in.
package telemetry
