// Package simulation plays random histories of TrainingJobs against the recovery engine, and checks the
// invariants of the design after every move. README.md lists them.
//
// The engine is a black box. The simulation hands it a gang.Observation, asks policies.Decide and
// policies.PlanFor, and carries the plan out. The checks judge by the simulated world, by the status, and by what
// docs/policies.md documents; they call nothing of the engine.
//
// A history is a function of its seed.
package simulation
