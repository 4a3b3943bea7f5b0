// Package sdk tests bongsu-sdk as its users run it: in an empty directory, by the commands of the
// docs. The toolkit is that of the checkout.
package sdk
