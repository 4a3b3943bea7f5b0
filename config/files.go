package config

import "io/fs"

// Files returns the manifests as they were written, for what makes others of them: the
// folders crd, rbac, admission and monitoring.
func Files() fs.FS { return files }
