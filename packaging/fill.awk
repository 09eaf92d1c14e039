# Fills a file's marks with values from the environment: @PREFIX@ with PREFIX, and so on. Values are taken to the
# letter; sed would read & and | in them.
function fill(mark, value, done, at) {
  done = ""
  while ((at = index($0, mark)) > 0) {
    done = done substr($0, 1, at - 1) value
    $0 = substr($0, at + length(mark))
  }
  $0 = done $0
}

{
  count = split("PREFIX LIBDIR INCLUDEDIR VERSION ABI NEEDS", names, " ")
  for (i = 1; i <= count; i++) {
    fill("@" names[i] "@", ENVIRON[names[i]])
  }
  # Folders of the pkg-config file are below its variable `prefix` where they can be.
  if ($0 ~ /^[a-z]*dir=/) {
    fill(ENVIRON["PREFIX"] "/", "${prefix}/")
  }
  print
}
