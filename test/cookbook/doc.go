// Package cookbook tries each alarm of docs/cookbook.md, as it is written there, in a
// cluster with the real controllers and scheduler: what it is for happens, and a
// receiver gets the message that the page shows. What it is not for happens as well,
// and the receiver gets nothing of that.
package cookbook
