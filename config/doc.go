// Package config turns the gateway's one YAML file into one validated, typed
// Tree. It is strict: a key that is unknown, given twice, of the wrong type or
// at odds with another is an error, and all errors are reported at once, each
// with its position. It opens no sockets and knows of no certificate's content.
//
// A Tree may also be built in Go: start from New and Default, then call
// Tree.Resolve, which does for it what Load does for a file.
//
// Struct tags of the tree are the one source of what the decoder, the printer
// and the JSON schema need: `yaml` is the key, `default` the value of a key
// that is left out, `one:"true"` allows a single value where a list is meant,
// `required:"true"` demands the key, and `early:"true"` decodes it first
// because others inherit from it. Doc comments are the descriptions in
// the schema.
package config
