# Tests that are no cmocka program: the style rules and the installed tree.
find_program(PYTHON3 python3)
if(PYTHON3)
  add_test(NAME style/rules COMMAND ${PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/style/check.py)
  add_test(NAME style/format COMMAND ${PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/style/format.py)
  add_test(NAME style/selftest COMMAND ${PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/style/selftest.py)
  set_tests_properties(style/rules style/format style/selftest PROPERTIES LABELS style
    SKIP_RETURN_CODE 77 TIMEOUT 60)
endif()

find_program(BASH bash)
if(BASH AND NOT QUERN_SANITIZE)
  add_test(NAME install/tree COMMAND ${BASH} ${CMAKE_SOURCE_DIR}/tests/install/run ${CMAKE_COMMAND}
    ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(install/tree PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
