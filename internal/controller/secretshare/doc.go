// Package secretshare keeps Secrets the same in every namespace that should have
// them: SecretShares and ClusterSecretShares.
//
// A rule is reconciled into a plan: which Secrets, to which namespaces. What is
// done for a plan is done by namespace, many at a time, each failing alone; what
// became of it goes into the rule's status. Between the two stands the book, which
// knows every plan, and of every copy whose it is and in which version. It is kept
// by the metadata of Secrets as the API server tells of them, and made anew at
// every start.
//
// What a copy looks like, and whose a Secret is, is decided in package share. It
// must never write to a Secret that is not a copy of the rule.
package secretshare
