// Package watch prints what becomes of the objects of one type: what is there,
// what is added, changed and deleted, in the order in which the API server tells
// it.
//
// An informer keeps the objects and survives disconnects; its callbacks only put
// what happened into a work queue, and one worker takes it out and prints it. The
// items of the queue are changes, not keys: an object that is added and deleted
// while both wait is printed as added and as deleted.
//
// It must never show a value of a Secret. So none is kept: what the informer
// stores is an [Object], which only a redactor makes.
package watch
