// Package bench measures what the gateway costs and says how it did so. It
// holds what all benches share: the model of an experiment, the processes it
// runs in, the time the kernel says they computed, the statistics, and the
// file the results go to. What is measured lives in subpackages, which
// register themselves; see [Register].
//
// An [Experiment] has arms, the things compared. Its rounds run every arm
// once, one after the other (A B A B …), so that whatever the machine does
// meanwhile hits all arms alike. Every sample is kept. A cell is one arm's
// samples and, for each metric, their median with a bootstrap confidence
// interval. Ratios are taken within one run only.
//
// The headline is CPU as the kernel accounts it for each process, which holds
// on a busy machine; rates and times do not, and are given only where the
// machine was quiet, see [Quiet].
package bench
