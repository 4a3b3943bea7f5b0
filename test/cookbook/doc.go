// Package cookbook tests each alarm of docs/cookbook.md and docs/coming-from.md as written
// there. The cluster has the real controllers and the real scheduler. Each test causes the situation that an alarm
// is for, and expects the message that the page shows. It also causes a similar situation,
// for which no message may be sent.
package cookbook
