// Package rights asks the API server, when the operator starts, whether the operator
// may do all that it needs, and says what is missing: without a right, some of its
// work stays undone, and often nothing is to be seen of that.
//
// What it needs is what the generated roles say that it was built with; there is no
// second list. It must not stop anything: with what rights there are, the operator
// goes on. Once all are there it asks no more.
package permissions
