// Package eventfeed turns the API server's Events into an ordered, resumable
// stream of occurrences: it watches events.k8s.io/v1 as protobuf without an
// informer cache, resumes at a position, lists again when the position has
// expired, and tells an increase of an Event's count from a mere change.
//
// It decides nothing about alarms and stores nothing: who consumes a batch
// commits it, together with the position, before the next one is handed out.
//
// # What is remembered
//
// Of each live Event its UID, its count, and the position at which it had that
// count: about 55 bytes. The API server tells of an Event that expires as of one
// that is deleted; those that went unseen are found by the next list.
//
// # What a list cannot tell
//
// A list is needed where the position has expired. It gives the Events as they
// stand: of several increases of one Event their sum, of an Event that came and
// went meanwhile nothing. So a watch that merely broke is resumed first; only
// one that brings nothing at all, by an error or by closing at once, is taken for
// expired.
//
// # When the history changes
//
// An API server that is behind the position was restored from an older copy. The
// counts stay the baseline: of what is known again only increases are reported;
// what is not known is reported if it is not older than the newest Event read.
package source

// The feed watches all Events, and lists them where a position has expired. Whoever
// follows it for a while lists what came before.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=list;watch
