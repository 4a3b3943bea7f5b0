// Package permissions asks the API server whether the operator has the permissions that it
// needs, and reports those that are missing. Without a permission, the operator silently
// does less.
//
// The needed permissions are those of the generated roles in the binary; there is no
// second list. A missing permission never stops the operator. The checks end once all
// permissions are granted.
package permissions
