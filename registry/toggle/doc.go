// Package toggle is the toggle file of an application: what it says, what is
// wrong with it, and how it is changed without touching anything else.
//
// A toggle file tells for each listener whether it runs and with how many
// consumers. Spring services bind it as a list under rabbitmq.toggle.consumers;
// this package reads the same two formats by the same rules, faults included:
// properties as java.util.Properties does, and YAML 1.1 as Spring's loader does.
//
// [Parse] reads a text and never fails: what can be read stands in
// [File.Entries], what is wrong in [File.Warnings], each with its line and with
// the [Class] of harm that it does to a Spring service. [File.InForce] tells what
// holds for each listener; an absent field means "no opinion".
//
// [Edit] carries out an [Intent] ("RefundConsumer off until 23:00, because …").
// It changes only the lines that it must; order, comments, line ends, escapes and
// unknown keys of all others stay byte for byte. It refuses, with a [*Refusal],
// a result that services would not take.
//
// [Diff] compares two files by what they say, [Unified] by their lines.
//
// The package is pure: it does no I/O, keeps no state, and all its functions may
// be called concurrently.
package toggle
