// Package control is the only way in which toggle files are written: by the
// dashboard, by commands, and when a planned change is due.
//
// A user's [Intent] ("RefundConsumer off until 23:00, because …") becomes a [Plan]
// when it is held against the file as it is now: the diff by lines and by meaning,
// the hazards of the queues, the instances that it affects, and what stands in the
// way. [Control.Plan] writes nothing.
//
// [Control.Apply] writes a plan by compare-and-publish. A foreign change that came
// in between is kept, and the same intent applied to it, unless it contradicts the
// intent. Then the effect is followed in the fleet's snapshots, from written to
// seen and applied by each instance, until the broker agrees; [Control.Wait] waits
// for that. Each write leaves one [AuditLine].
//
// [Control.UndoPlan] brings back what the newest write changed, [Control.History]
// lists the versions of a file, and an intent of [Rollback] returns to one.
//
// [Control.Run] carries out planned changes (pauseAt, resumeAt). Every process that
// may write can run it; the compare-and-publish makes sure that exactly one of them
// succeeds. A service that uses the library hands its control to the registry:
//
//	ctl := control.New(control.Config{App: "settle-service", Store: store})
//	reg := registry.New(registry.Config{App: "settle-service", Store: store, Timed: ctl})
//
// All methods may be called from any goroutine.
package control
